package key_test

import (
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/redlatch/redlatch/core/key"
)

func ExampleTemplate_Render() {
	template := key.MustParse("lock:order:<userId>")
	fmt.Println(template.Render(key.Vars{"userId": "42"}))
	fmt.Println(template.Render(key.Vars{"userId": "4:2{x}"}))
	_, err := template.Render(key.Vars{})
	fmt.Println(err)
	// Output:
	// lock:order:42 <nil>
	// lock:order:4%3A2%7Bx%7D <nil>
	// key: missing or empty value: variable "userId" of template "lock:order:<userId>"
}

// A front end looks each variable up where its source says, and nowhere else.
func ExampleTemplate_Resolve() {
	template := key.MustParse("lock:cart:<header.X-Tenant|lower>:<query.id|int>")
	request := httptest.NewRequest("POST", "/cart?id=7", nil)
	request.Header.Set("X-Tenant", "ACME")

	fmt.Println(template.Resolve(func(v key.Var) (string, error) {
		var values []string
		switch v.Source {
		case "header":
			values = request.Header.Values(v.Name)
		case "query":
			values = request.URL.Query()[v.Name]
		}
		switch len(values) {
		case 0:
			return "", key.ErrMissing
		case 1:
			return values[0], nil
		}
		return "", key.ErrAmbiguous
	}))
	// Output: lock:cart:acme:7 <nil>
}

func ExampleParse() {
	_, err := key.Parse("lock:order:<userId>-<path.id>")
	fmt.Println(err)

	var syntax *key.SyntaxError
	if errors.As(err, &syntax) {
		fmt.Println("column", syntax.Column)
	}
	// Output:
	// key: bad template "lock:order:<userId>-<path.id>", column 21: "-" does not separate <path.id> from <userId> because values may contain it, put ":" between them
	// column 21
}

func ExampleTemplate_Shape() {
	fmt.Println(key.MustParse("lock:order:<userId>").Shape())
	fmt.Println(key.MustParse("lock:order:<path.orderId|int>").Shape())
	// Output:
	// lock:order:<>
	// lock:order:<>
}
