package sqlstore

// SQLite has one writer at a time, and no round trip: an acquire reads the row, and then
// writes it.
func sqlite(all *statements, of func(string) statement) {
	all.insert = of(`INSERT INTO redlatch_locks (id, version, expires, fence, mode, owner, more, name)
SELECT $1, $2, $3, $4, $5, $6, $7, $9 WHERE {now} < $8
ON CONFLICT DO NOTHING`)
	all.renew = of(`UPDATE redlatch_locks AS l SET version = max(l.version, {now}) + 1, expires = max(l.expires, {now} + w.ttl)
FROM (SELECT unhex(json_extract(value, '$.id')) AS id, json_extract(value, '$.owner') AS owner,
json_extract(value, '$.mode') AS mode, json_extract(value, '$.twin') AS twin, json_extract(value, '$.ttl') AS ttl FROM json_each($1)) AS w
WHERE l.id = w.id AND l.owner = w.owner AND l.mode IN (w.mode, w.twin) AND l.more IS NULL AND l.expires > {now}
RETURNING id, owner`)
	all.register, all.registered = of(registerText), of(registeredText+`id IN (SELECT value FROM json_each($1))`)
	const watched = `(SELECT json_extract(value, '$.i') AS i, unhex(json_extract(value, '$.id')) AS id, json_extract(value, '$.version') AS version FROM json_each($1)) AS w`
	all.changed = of(`SELECT w.i, {now}, l.version, l.expires, l.fence, l.mode, l.owner, l.more
FROM ` + watched + ` JOIN redlatch_locks l ON l.id = w.id AND l.version <> w.version`)
	all.sweep = of(`DELETE FROM redlatch_locks WHERE id IN (SELECT w.id FROM ` + watched + `)
AND fence <= $2 AND expires < {now} - 60000000 AND waited < {now} - 60000000`)
}
