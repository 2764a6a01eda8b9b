-- MySQL cannot roll a CREATE back: every statement may be run again after a
-- start that was cut short.

-- +goose Up
-- remaining, orders and buyers are counted in the transaction of each order, so that
-- a look at the sale costs the same however much was sold.
CREATE TABLE IF NOT EXISTS vouchers (
    id         VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    title      VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    stock      BIGINT NOT NULL CHECK (stock > 0),
    remaining  BIGINT NOT NULL,
    orders     BIGINT NOT NULL DEFAULT 0,
    buyers     BIGINT NOT NULL DEFAULT 0,
    begin_at   DATETIME(6) NOT NULL,
    end_at     DATETIME(6) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    CHECK (remaining BETWEEN 0 AND stock)
) ENGINE = InnoDB;

-- orders_one_per_user: one order per user and voucher, whatever else fails.
CREATE TABLE IF NOT EXISTS orders (
    id         VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    voucher_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fence      BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    UNIQUE INDEX orders_one_per_user (user_id, voucher_id),
    INDEX orders_of_voucher (voucher_id, id),
    FOREIGN KEY (voucher_id) REFERENCES vouchers (id)
) ENGINE = InnoDB;

-- The newest fence that has ordered, by user: the lock's key is per user.
CREATE TABLE IF NOT EXISTS order_guards (
    user_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    fence   BIGINT NOT NULL,
    owner   VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE order_guards;
DROP TABLE orders;
DROP TABLE vouchers;
