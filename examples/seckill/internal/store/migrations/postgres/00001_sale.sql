-- +goose Up
-- remaining, orders and buyers are counted in the transaction of each order, so that
-- a look at the sale costs the same however much was sold.
CREATE TABLE vouchers (
    id         VARCHAR(36) NOT NULL PRIMARY KEY,
    title      VARCHAR(200) NOT NULL,
    stock      BIGINT NOT NULL CHECK (stock > 0),
    remaining  BIGINT NOT NULL,
    orders     BIGINT NOT NULL DEFAULT 0,
    buyers     BIGINT NOT NULL DEFAULT 0,
    begin_at   TIMESTAMPTZ NOT NULL,
    end_at     TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CHECK (remaining BETWEEN 0 AND stock)
);

CREATE TABLE orders (
    id         VARCHAR(36) NOT NULL PRIMARY KEY,
    voucher_id VARCHAR(36) NOT NULL,
    user_id    VARCHAR(64) NOT NULL,
    fence      BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    FOREIGN KEY (voucher_id) REFERENCES vouchers (id)
);

-- One order per user and voucher, whatever else fails.
CREATE UNIQUE INDEX orders_one_per_user ON orders (user_id, voucher_id);

CREATE INDEX orders_of_voucher ON orders (voucher_id, id);

-- The newest fence that has ordered, by user: the lock's key is per user.
CREATE TABLE order_guards (
    user_id VARCHAR(64) NOT NULL PRIMARY KEY,
    fence   BIGINT NOT NULL,
    owner   VARCHAR(256) NOT NULL
);

-- +goose Down
DROP TABLE order_guards;
DROP TABLE orders;
DROP TABLE vouchers;
