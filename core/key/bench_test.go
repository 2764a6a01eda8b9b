package key_test

import (
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

func BenchmarkResolve(b *testing.B) {
	benchmarks := map[string]string{
		"one":     "lock:order:<userId>",
		"two":     "lock:{order:<path.id|int>}:<userId>",
		"escaped": "lock:order:<query.name>",
		"hashed":  "lock:order:<header.Authorization|sha256>",
	}
	values := map[string]string{"userId": "10042", "id": "77", "name": "Zoë: {x}", "Authorization": "Bearer abcdef"}
	for name, text := range benchmarks {
		b.Run(name, func(b *testing.B) {
			template := key.MustParse(text)
			lookup := func(v key.Var) (string, error) { return values[v.Name], nil }
			b.ReportAllocs()
			for b.Loop() {
				if _, err := template.Resolve(lookup); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
