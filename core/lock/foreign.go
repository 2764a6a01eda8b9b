package lock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
)

// ContextKey is the name under which an integration stores the lease of a request in a
// framework's own context, whose Value doesn't find what the request's context carries.
// [FromContext], [LeaseOf], [AssertHeld] and re-entry look there last:
//
//	c.Set(lock.ContextKey, lease) // *gin.Context
//
// The integration takes it out again when the handler has returned.
const ContextKey = "redlatch.lease"

// endlessWait is how long a call waits on a context that can't end before it says so.
const endlessWait = 10 * time.Second

// deliberate reports whether the caller has decided how long a wait on ctx may last: ctx can
// end, or it is [context.Background] or [context.TODO], which say that no end is meant. The
// context of a framework, such as *gin.Context, is neither.
func deliberate(ctx context.Context) bool {
	if _, ofLease := ctx.(*leaseContext); ofLease {
		return true // its Done is made when somebody waits for it
	}
	return ctx.Done() != nil || ctx == context.Background() || ctx == context.TODO()
}

// watchEndless logs a line if a call still waits after [endlessWait] and nothing bounds it.
// The call must stop the timer.
func watchEndless(bounded func() bool) *time.Timer {
	var callers [16]uintptr
	n := runtime.Callers(2, callers[:])
	return time.AfterFunc(endlessWait, func() {
		if bounded() {
			return
		}
		slog.Default().Warn("lock: a call waits on a context that can't end: pass the context of the request, "+
			"for example c.Request.Context() in Gin, or limit the wait with WithWait",
			slog.String("caller", callerOf(callers[:n])), slog.Duration("waited", endlessWait))
	})
}

// callerOf names the first caller that is not of this package.
func callerOf(callers []uintptr) string {
	frames := runtime.CallersFrames(callers)
	for {
		frame, more := frames.Next()
		if !more || !strings.Contains(frame.Function, "/core/lock.") {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
	}
}
