-- +goose Up
-- The locks of redlatch: one row a key. There is no index but that of the key, so that
-- updates stay on their page (HOT), and the table small.
CREATE TABLE IF NOT EXISTS redlatch_locks (
  id bytea PRIMARY KEY,              -- the first 16 bytes of SHA-256(name)
  name bytea NOT NULL,               -- the key
  owner text COLLATE "C" NOT NULL DEFAULT '',
  mode smallint NOT NULL DEFAULT 0,  -- 0 exclusive, 1 fair, 2 read, 3 write, 16 more: released, under a minimum hold
  expires bigint NOT NULL DEFAULT 0, -- end of the last hold, in microseconds since 1970; 0: free
  fence bigint NOT NULL DEFAULT 0,   -- of the last grant
  version bigint NOT NULL DEFAULT 0,
  waited bigint NOT NULL DEFAULT 0,  -- somebody listens for releases until then
  more bytea                         -- several holds, permits and a queue, as JSON
) WITH (fillfactor = 50);
-- The lockers that say who they are.
CREATE TABLE IF NOT EXISTS redlatch_lockers (
  id text COLLATE "C" PRIMARY KEY,   -- of the locker
  registration bytea NOT NULL,       -- as JSON
  expires bigint NOT NULL            -- in microseconds since 1970
);
-- The largest fence of the rows that were deleted.
CREATE TABLE IF NOT EXISTS redlatch_meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  floor bigint NOT NULL
);
INSERT INTO redlatch_meta (one, floor) VALUES (true, 0) ON CONFLICT DO NOTHING;
