package grpclock

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
)

// IsContended reports whether a call failed because another call holds its lock.
// The handler didn't run, so the call can be repeated: see [RetryDelay]. err may be
// wrapped.
func IsContended(err error) bool { return isOf(err, guard.Contended) }

// IsOverloaded reports whether a call failed because too many calls wait for its
// lock. The handler didn't run, so the call can be repeated: see [RetryDelay]. err
// may be wrapped.
func IsOverloaded(err error) bool { return isOf(err, guard.Overloaded) }

// IsLost reports whether the lock was lost while the handler ran. The call may have
// taken effect and overlapped with another one: check before you repeat it. err may
// be wrapped.
func IsLost(err error) bool { return isOf(err, guard.Lost) }

// RetryDelay returns how long the server wants clients to wait before they repeat a
// call that its lock kept from running, and whether err says so. The RetryInfo of
// another error isn't meant. err may be wrapped.
func RetryDelay(err error) (time.Duration, bool) {
	st := status.Convert(err)
	retry, ok := detail[*errdetails.RetryInfo](st)
	if _, ours := reasonOf(st); !ok || !ours || retry.GetRetryDelay().CheckValid() != nil {
		return 0, false
	}
	return retry.GetRetryDelay().AsDuration(), true
}

func isOf(err error, kind guard.Kind) bool {
	reason, ours := reasonOf(status.Convert(err))
	return ours && reason == kind.Code()
}

// reasonOf returns the reason of a status, and whether it is that of an error of this
// package.
func reasonOf(st *status.Status) (reason string, ours bool) {
	info, ok := detail[*errdetails.ErrorInfo](st)
	return info.GetReason(), ok && info.GetDomain() == Domain
}

// detail finds a detail of a status.
func detail[T any](st *status.Status) (found T, ok bool) {
	for _, d := range st.Details() {
		if found, ok = d.(T); ok {
			return found, true
		}
	}
	return found, false
}
