-- +goose Up
-- The locks of redlatch: one row a key.
CREATE TABLE IF NOT EXISTS redlatch_locks (
  id BINARY(16) NOT NULL PRIMARY KEY,     -- the first 16 bytes of SHA-256(name)
  name VARBINARY(4096) NOT NULL,          -- the key
  owner VARBINARY(128) NOT NULL DEFAULT '',
  mode SMALLINT NOT NULL DEFAULT 0,       -- 0 exclusive, 1 fair, 2 read, 3 write, 16 more: released, under a minimum hold
  expires BIGINT NOT NULL DEFAULT 0,      -- end of the last hold, in microseconds since 1970; 0: free
  fence BIGINT NOT NULL DEFAULT 0,        -- of the last grant
  version BIGINT NOT NULL DEFAULT 0,
  waited BIGINT NOT NULL DEFAULT 0,       -- not used
  more MEDIUMBLOB                         -- several holds, permits and a queue, as JSON
) ENGINE = InnoDB;
-- The lockers that say who they are.
CREATE TABLE IF NOT EXISTS redlatch_lockers (
  id VARBINARY(128) NOT NULL PRIMARY KEY, -- of the locker
  registration BLOB NOT NULL,             -- as JSON
  expires BIGINT NOT NULL                 -- in microseconds since 1970
) ENGINE = InnoDB;
-- The largest fence of the rows that were deleted.
CREATE TABLE IF NOT EXISTS redlatch_meta (
  one TINYINT NOT NULL PRIMARY KEY,
  floor BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO redlatch_meta (one, floor) VALUES (1, 0);
