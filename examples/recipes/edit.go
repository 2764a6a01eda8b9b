package recipes

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// Documents are edited in two requests, which may come to different processes: Open
// shows the form, and Save stores it.
type Documents struct {
	Locker *lock.Locker
	DB     *sql.DB
	Rows   *fence.Table // the table documents, with its columns fence and fence_owner
}

// Open returns a document, and keeps other editors out for ten minutes: they get
// lock.ErrBusy. The ticket goes into the form, as ticket.String().
func (d *Documents) Open(ctx context.Context, id int64) (body string, ticket fence.Token, err error) {
	lease, err := d.Locker.TryAcquire(ctx, editKey(id), lock.WithMinHold(10*time.Minute))
	if err != nil {
		return "", ticket, err
	}
	if ticket, err = fence.Of(lease); err == nil {
		err = d.Rows.Claim(ctx, d.DB, id, ticket)
	}
	if err == nil {
		err = d.DB.QueryRowContext(ctx, `SELECT body FROM documents WHERE id = ?`, id).Scan(&body)
	}
	// The document stays locked, for no process. What isn't released may be another editor's.
	if released := lease.Release(ctx); err != nil && released == nil {
		d.free(ctx, id)
	}
	return body, ticket, err
}

// Save stores the document, if nobody has opened it since: otherwise it returns
// fence.ErrStale. The ticket is what fence.Parse read from the form.
func (d *Documents) Save(ctx context.Context, id int64, ticket fence.Token, body string) error {
	condition, args := d.Rows.Where(ticket, 3)
	result, err := d.DB.ExecContext(ctx, `UPDATE documents SET body = ? WHERE id = ? AND `+condition, append([]any{body, id}, args...)...)
	if err != nil {
		return err
	}
	if err := d.Rows.Confirm(ctx, d.DB, id, ticket, result); err != nil {
		return err
	}
	d.free(ctx, id)
	return nil
}

// free lets the next editor in. Where it fails, the ten minutes do.
func (d *Documents) free(ctx context.Context, id int64) {
	_, _ = d.Locker.ForceRelease(context.WithoutCancel(ctx), editKey(id))
}

func editKey(id int64) string { return fmt.Sprint("edit:document:", id) }
