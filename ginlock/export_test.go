package ginlock

// JSONField is for the fuzz test.
var JSONField = jsonField
