package grpclock_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// FuzzHostileCall sends whatever a client may: any message, any metadata. Either
// the call is refused, or the handler holds the one lock whose key is made of
// these values, each in its place.
func FuzzHostileCall(f *testing.F) {
	for _, values := range [][2]string{
		{"a", "b"},
		{"a:b", "c"},
		{"", "x"},
		{"{a}", "b"},
		{"a\x00b", "b\r\n"},
		{"%3A", "%"},
		{"\xff\xfe", "é"},
		{"<x>", "*"},
		{strings.Repeat("a", 300), "b"},
		{strings.Repeat("é", 100), strings.Repeat(":", 100)},
	} {
		for count := range uint8(3) {
			f.Add([]byte{}, values[0], values[1], count)
		}
	}
	f.Add([]byte{0x0a, 0x01, 'x'}, "a", "b", uint8(1))
	g := guardtest.Guard(f)
	unary, _ := locksOf(f, g, registered(ordersService),
		grpclock.WithRule(place, rule.Rule{Key: "lock:<user_id>:<req.voucherId>:<md.x-tenant>:<md.x-bin>:<ctx.user>"}))
	f.Fuzz(func(t *testing.T, wire []byte, first, second string, count uint8) {
		req := &testpb.PlaceRequest{UserId: first, VoucherId: second}
		if len(wire) > 0 && proto.Unmarshal(wire, req) != nil {
			return // gRPC refuses it
		}
		md := metadata.MD{"x-bin": {second}}
		for range count % 3 {
			md.Append("x-tenant", first)
		}
		ctx := context.WithValue(metadata.NewIncomingContext(t.Context(), md), "user", second) //nolint:revive,staticcheck // the name is the template's
		ran := false
		_, err := unary(ctx, req, &grpc.UnaryServerInfo{FullMethod: place}, func(ctx context.Context, _ any) (any, error) {
			ran = true
			guardtest.WantParts(t, keyOf(ctx), "lock", req.GetUserId(), req.GetVoucherId(), first, second, second)
			return nil, nil
		})
		if complete := count%3 == 1 && req.GetUserId() != "" && req.GetVoucherId() != "" && first != "" && second != ""; ran && !complete {
			t.Errorf("it ran without all of its values")
		}
		if !ran && (status.Code(err) != codes.InvalidArgument || reasonOf(err) != "LOCK_KEY_INVALID") {
			t.Errorf("got %v", err)
		}
	})
}

// Kinds are answered as the table of guard says, and both tables for people have
// every one.
func TestTheTablesOfAnswersHaveEveryKind(t *testing.T) {
	for _, file := range []string{"doc.go", "../docs/grpc.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range guard.Kinds() {
			found := false
			for line := range strings.Lines(string(text)) {
				words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t|`,;\n", r) })
				for i, word := range words {
					found = found || word == kind.Code && strings.Contains(strings.Join(words[i+1:], " "), kind.GRPC.String())
				}
			}
			if !found {
				t.Errorf("%s has no line with %s and %s", file, kind.Code, kind.GRPC.String())
			}
		}
	}
}
