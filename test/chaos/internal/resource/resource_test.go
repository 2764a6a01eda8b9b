package resource_test

import (
	"net"
	"testing"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
)

// open returns a server, two clients of it, and what the server has noted.
func open(t *testing.T) (*resource.Server, []*resource.Client, *[]history.Event) {
	t.Helper()
	var noted []history.Event
	server := resource.New(history.StartClock(), func(e history.Event) { noted = append(noted, e) })
	var clients []*resource.Client
	for range 2 {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.Serve(there)
		}()
		t.Cleanup(func() {
			here.Close()
			<-done
		})
		clients = append(clients, resource.Dial(here))
	}
	return server, clients, &noted
}

func TestAStaleHolderLosesNothingOfTheNewOne(t *testing.T) {
	server, clients, noted := open(t)
	stale, fresh := clients[0], clients[1]
	old := resource.Request{Key: "k", Owner: "a", Fence: 1}
	young := resource.Request{Key: "k", Owner: "b", Fence: 2}
	must := func(want bool, reply resource.Reply, err error) resource.Reply {
		t.Helper()
		if err != nil || reply.OK != want {
			t.Fatalf("got %+v, %v, want ok to be %v", reply, err, want)
		}
		return reply
	}
	ask := func(f func(resource.Request) (resource.Reply, error), r resource.Request, want bool) resource.Reply {
		t.Helper()
		reply, err := f(r)
		return must(want, reply, err)
	}

	ask(stale.Claim, old, true)
	read := ask(fresh.Claim, young, true)
	old.Value, old.Plain = 1, 1
	ask(stale.Write, old, false) // it was stopped between its read and its write
	young.Value, young.Plain = read.Value+1, read.Plain+1
	ask(fresh.Write, young, true)
	ask(stale.Claim, old, false)
	same := young
	same.Owner = "c" // the same fence of another owner
	ask(stale.Claim, same, false)

	totals := server.Totals()
	want := resource.Totals{Stale: 3, Fenced: 1, Plain: 2, PlainLost: 1}
	if totals != want {
		t.Errorf("totals %+v, want %+v", totals, want)
	}
	if len(*noted) != 3 || (*noted)[2].Kind != history.Write || (*noted)[2].Value != 1 {
		t.Errorf("noted %+v, want two claims and the write", *noted)
	}
}
