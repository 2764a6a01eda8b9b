// Package extra lets a test add a field to the table of rules, to see that one
// row reaches every form of a rule.
package extra

// Add adds a field that holds a duration. Package rule sets it.
var Add func(name string) (remove func())
