CREATE TABLE payments (request_key TEXT NOT NULL PRIMARY KEY, amount INTEGER NOT NULL, receipt TEXT NOT NULL);
CREATE TABLE stock (article TEXT NOT NULL PRIMARY KEY, pieces INTEGER NOT NULL);
CREATE TABLE checkpoints (job TEXT NOT NULL PRIMARY KEY, done INTEGER NOT NULL);
INSERT INTO checkpoints (job, done) VALUES ('reindex', 0);
