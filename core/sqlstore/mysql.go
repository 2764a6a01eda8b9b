package sqlstore

func mysql(all *statements, of func(string) statement) {
	// The answer travels as the insert id, as there is no RETURNING: the fence, or less
	// than 0 for how long the key is busy, or 0 or 1 where the row must be read. MySQL
	// assigns from left to right: expires comes last. What is constant it evaluates first,
	// so the 1 is made of a column.
	const (
		free    = `expires <= {now}`
		own     = `owner = $4 AND mode IN ($3, $6)`
		granted = `more IS NULL AND (` + free + ` OR ` + own + `)`
	)
	all.acquire = of(`INSERT INTO redlatch_locks (id, name, mode, owner, expires, fence, version)
SELECT $1, $2, $3, $4, {now} + $5, LAST_INSERT_ID(GREATEST({now} * 64, m.floor + 64)), {now} FROM redlatch_meta m
ON DUPLICATE KEY UPDATE
fence = CASE WHEN more IS NOT NULL THEN IF(LAST_INSERT_ID(expires * 0 + 1) IS NULL, fence, fence)
  WHEN ` + free + ` THEN LAST_INSERT_ID(GREATEST(fence + 64, {now} * 64))
  WHEN ` + own + ` THEN LAST_INSERT_ID(fence)
  ELSE IF(LAST_INSERT_ID({now} - expires) IS NULL, fence, fence) END,
version = IF(` + granted + `, GREATEST(version, {now}) + 1, version),
mode = IF(more IS NULL AND ` + free + `, $3, mode),
owner = IF(more IS NULL AND ` + free + `, $4, owner),
expires = IF(` + granted + `, GREATEST(expires, {now} + $5), expires)`)
	all.insert = of(`INSERT IGNORE INTO redlatch_locks (id, version, expires, fence, mode, owner, more, name)
SELECT $1, $2, $3, $4, $5, $6, $7, $9 FROM redlatch_meta WHERE {now} < $8`)
	all.register = of(`REPLACE INTO redlatch_lockers (id, registration, expires) VALUES ($1, $2, {now} + $3)`)
	all.registered = of(registeredText + `id IN (SELECT CAST(w.id AS BINARY) FROM JSON_TABLE($1, '$[*]' COLUMNS (id VARCHAR(128) PATH '$')) AS w)`)

	const watched = `JSON_TABLE($1, '$[*]' COLUMNS (i INT PATH '$.i', id VARCHAR(32) PATH '$.id', version BIGINT PATH '$.version')) AS w`
	all.renew = of(`UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id VARCHAR(32) PATH '$.id', owner VARCHAR(128) PATH '$.owner',
mode SMALLINT PATH '$.mode', twin SMALLINT PATH '$.twin', ttl BIGINT PATH '$.ttl')) AS w STRAIGHT_JOIN redlatch_locks l ON l.id = UNHEX(w.id)
SET l.version = GREATEST(l.version, {now}) + 1, l.expires = GREATEST(l.expires, {now} + w.ttl)
WHERE l.owner = CAST(w.owner AS BINARY) AND l.mode IN (w.mode, w.twin) AND l.more IS NULL AND l.expires > {now}`)
	all.changed = of(`SELECT w.i, {now}, l.version, l.expires, l.fence, l.mode, l.owner, l.more
FROM ` + watched + ` STRAIGHT_JOIN redlatch_locks l ON l.id = UNHEX(w.id) AND l.version <> w.version`)
	all.sweep = of(`DELETE l FROM ` + watched + ` STRAIGHT_JOIN redlatch_locks l ON l.id = UNHEX(w.id)
WHERE l.fence <= $2 AND l.expires < {now} - 60000000 AND l.waited < {now} - 60000000`)
}
