package sqlstore

// lockWait bounds how long an acquire waits for the row of a key, which a transaction of
// [Store.InTx] has until it ends.
const lockWait = "1500ms"

// channel is that of the notifications.
const channel = "redlatch"

func postgresql(all *statements, of func(string) statement) {
	// A refused claim only reads: the look comes first, as an upsert that its WHERE
	// refuses locks the row and writes. The time is taken before any wait for the row, so
	// that other holds end no earlier. The second half sees the snapshot of the
	// beginning: it may say that the key is free, and then the caller looks again.
	all.acquire = of(`WITH c AS MATERIALIZED (SELECT {now} AS t, set_config('lock_timeout', '` + lockWait + `', true)),
got AS (
INSERT INTO redlatch_locks AS l (id, name, mode, owner, expires, fence, version)
SELECT $1::bytea, $2::bytea, $3::smallint, $4::text, c.t + $5::bigint, greatest(c.t * 64, m.floor + 64), c.t
FROM c, redlatch_meta m
WHERE NOT EXISTS (SELECT FROM redlatch_locks s WHERE s.id = $1 AND (s.more IS NOT NULL
  OR s.expires > c.t AND NOT (s.owner = $4 AND s.mode IN ($3::smallint, $6::smallint))))
ON CONFLICT (id) DO UPDATE SET version = greatest(l.version, excluded.version) + 1, owner = excluded.owner,
  fence = CASE WHEN l.expires > excluded.version THEN l.fence ELSE greatest(l.fence + 64, excluded.fence) END,
  mode = CASE WHEN l.expires > excluded.version THEN l.mode ELSE excluded.mode END,
  expires = greatest(l.expires, excluded.expires)
WHERE l.more IS NULL AND (l.expires <= excluded.version OR l.owner = excluded.owner AND l.mode IN ($3, $6))
RETURNING fence, version)
SELECT got.fence, got.version, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0, '', NULL::bytea FROM got
UNION ALL
SELECT 0, 0, c.t, m.floor, COALESCE(l.version, 0), COALESCE(l.expires, 0), COALESCE(l.fence, 0), COALESCE(l.mode, 0), COALESCE(l.owner, ''), l.more
FROM c, redlatch_meta m LEFT JOIN redlatch_locks l ON l.id = $1 WHERE NOT EXISTS (SELECT FROM got)`)

	// With $9 somebody who listens is notified, but only if the row says that there is
	// one. NOTIFY has a lock of the whole cluster until its commit is flushed, so a release
	// doesn't wait for the disk. If a crash forgets it, the key is busy until the hold ends.
	// Nothing else can be forgotten: a grant that came later was flushed together with it.
	const relaxed = `set_config('synchronous_commit', 'off', true)`
	all.update = of(`UPDATE redlatch_locks SET ` + nextVersion + `, expires = $3::bigint, fence = $4::bigint, mode = $5::smallint, owner = $6::text, more = $7::bytea
WHERE id = $1::bytea AND version = $2::bigint AND {now} < $8::bigint
RETURNING CASE WHEN $10::boolean THEN ` + relaxed + ` END, CASE WHEN $9::text <> '' AND waited > {now} THEN pg_notify('` + channel + `', $9::text)::text END,
CASE WHEN $11::text <> '' THEN pg_notify('` + channel + `', $11::text)::text END`)
	all.insert = of(`INSERT INTO redlatch_locks (id, version, expires, fence, mode, owner, more, name)
SELECT $1::bytea, $2::bigint, $3::bigint, $4::bigint, $5::smallint, $6::text, $7::bytea, $9::bytea WHERE {now} < $8::bigint
ON CONFLICT DO NOTHING`)
	all.release = of(releaseText + ` RETURNING ` + relaxed + `, CASE WHEN waited > {now} THEN pg_notify('` + channel + `', $5::text)::text END`)
	all.releaseTx = of(releaseTxText + ` RETURNING CASE WHEN waited > {now} THEN pg_notify('` + channel + `', $5::text)::text END`)

	all.renew = of(`UPDATE redlatch_locks l SET version = greatest(l.version, c.t) + 1, expires = greatest(l.expires, c.t + w.ttl)
FROM (SELECT {now} AS t OFFSET 0) c, json_to_recordset($1::json) AS w(i int, id text, owner text, mode smallint, twin smallint, ttl bigint)
WHERE l.id = decode(w.id, 'hex') AND l.owner = w.owner AND l.mode IN (w.mode, w.twin) AND l.more IS NULL AND l.expires > c.t
RETURNING l.id, l.owner`)
	all.changed = of(`SELECT w.i, {now}, l.version, l.expires, l.fence, l.mode, l.owner, l.more
FROM json_to_recordset($1::json) AS w(i int, id text, version bigint) JOIN redlatch_locks l ON l.id = decode(w.id, 'hex') AND l.version <> w.version`)

	all.register, all.registered = of(registerText), of(registeredText+`id IN (SELECT json_array_elements_text($1::json))`)

	// Who listens says so in the row, also where nobody has had the key yet.
	all.listen = of(`INSERT INTO redlatch_locks AS l (id, name, version, waited) SELECT $1::bytea, $2::bytea, t, t + 30000000 FROM (SELECT {now} AS t OFFSET 0) c
ON CONFLICT (id) DO UPDATE SET waited = excluded.waited WHERE l.waited < excluded.waited - 15000000`)
	all.heard = of(`UPDATE redlatch_locks l SET waited = {now} + 30000000
FROM json_to_recordset($1::json) AS w(i int, id text, version bigint) WHERE l.id = decode(w.id, 'hex')`)
	all.sweep = of(`DELETE FROM redlatch_locks l USING json_to_recordset($1::json) AS w(i int, id text, version bigint)
WHERE l.id = decode(w.id, 'hex') AND l.fence <= $2::bigint AND l.expires < {now} - 60000000 AND l.waited < {now} - 60000000`)
}
