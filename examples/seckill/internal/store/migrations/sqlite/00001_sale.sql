-- +goose Up
-- remaining, orders and buyers are counted in the transaction of each order, so that
-- a look at the sale costs the same however much was sold.
CREATE TABLE vouchers (
    id         TEXT NOT NULL PRIMARY KEY,
    title      TEXT NOT NULL,
    stock      INTEGER NOT NULL CHECK (stock > 0),
    remaining  INTEGER NOT NULL,
    orders     INTEGER NOT NULL DEFAULT 0,
    buyers     INTEGER NOT NULL DEFAULT 0,
    begin_at   TIMESTAMP NOT NULL,
    end_at     TIMESTAMP NOT NULL,
    created_at TIMESTAMP NOT NULL,
    CHECK (remaining BETWEEN 0 AND stock)
);

CREATE TABLE orders (
    id         TEXT NOT NULL PRIMARY KEY,
    voucher_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    fence      INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    FOREIGN KEY (voucher_id) REFERENCES vouchers (id)
);

-- One order per user and voucher, whatever else fails.
CREATE UNIQUE INDEX orders_one_per_user ON orders (user_id, voucher_id);

CREATE INDEX orders_of_voucher ON orders (voucher_id, id);

-- The newest fence that has ordered, by user: the lock's key is per user.
CREATE TABLE order_guards (
    user_id TEXT NOT NULL PRIMARY KEY,
    fence   INTEGER NOT NULL,
    owner   TEXT NOT NULL
);

-- +goose Down
DROP TABLE order_guards;
DROP TABLE orders;
DROP TABLE vouchers;
