-- +goose Up
-- The locks of redlatch: one row a key.
CREATE TABLE IF NOT EXISTS redlatch_locks (
  id BLOB NOT NULL PRIMARY KEY,        -- the first 16 bytes of SHA-256(name)
  name BLOB NOT NULL,                  -- the key
  owner TEXT NOT NULL DEFAULT '',
  mode INTEGER NOT NULL DEFAULT 0,     -- 0 exclusive, 1 fair, 2 read, 3 write, 16 more: released, under a minimum hold
  expires INTEGER NOT NULL DEFAULT 0,  -- end of the last hold, in microseconds since 1970; 0: free
  fence INTEGER NOT NULL DEFAULT 0,    -- of the last grant
  version INTEGER NOT NULL DEFAULT 0,
  waited INTEGER NOT NULL DEFAULT 0,   -- not used
  more BLOB                            -- several holds, permits and a queue, as JSON
) WITHOUT ROWID;
-- The lockers that say who they are.
CREATE TABLE IF NOT EXISTS redlatch_lockers (
  id TEXT NOT NULL PRIMARY KEY,        -- of the locker
  registration BLOB NOT NULL,          -- as JSON
  expires INTEGER NOT NULL             -- in microseconds since 1970
) WITHOUT ROWID;
-- The largest fence of the rows that were deleted.
CREATE TABLE IF NOT EXISTS redlatch_meta (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  floor INTEGER NOT NULL
);
INSERT INTO redlatch_meta (one, floor) VALUES (1, 0) ON CONFLICT DO NOTHING;
