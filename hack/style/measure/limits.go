package main

// A measure is one line of the table: a value of the product, and one of tests and tools.
type measure struct {
	name  string
	value func(*figures) float64
	// A limit is an upper bound, or a lower one where isLeast. Sizes have none.
	product, others float64
	isLeast         bool
}

const unlimited = -1

// measures has the limits that make lint enforces. A new ability may raise the limit of statements
// by what it and its tests need.
var measures = []measure{
	{name: "statements", value: (*figures).statementCount, product: 29170, others: 52090},
	{name: "functions", value: (*figures).functionCount, product: unlimited, others: unlimited},
	{name: "lines of function bodies", value: (*figures).bodyLineCount, product: unlimited, others: unlimited},
	{name: "blank lines in them, %", value: (*figures).blankLineRatio, product: unlimited, others: unlimited},
	{name: "comment lines in them, %", value: (*figures).commentLineRatio, product: unlimited, others: unlimited},
	{name: "functions of 20 lines and more with a paragraph, %", value: (*figures).paragraphRatio, product: 99, others: 98, isLeast: true},
	{name: "parallel assignments", value: (*figures).parallelCount, product: unlimited, others: unlimited},
	{name: "parallel assignments per 1,000 body lines", value: (*figures).parallelRatio, product: 28069, others: 50533},
	{name: "statements but := in heads of if and switch", value: (*figures).headCount, product: 28069, others: 50533},
	{name: "&& beside || without brackets", value: (*figures).mixedCount, product: 28069, others: 50533},
	{name: "conditions of more than 3 operators", value: (*figures).longConditionCount, product: 28069, others: 50533},
	{name: "cyclomatic complexity of a function", value: (*figures).worstComplexity, product: 28069, others: 50533},
	{name: "lines of the longest file", value: (*figures).longestFile, product: 28069, others: 50533},
	{name: "files of the largest package", value: (*figures).largestPackage, product: 16, others: unlimited},
	{name: "methods of the largest type", value: (*figures).largestType, product: 40, others: unlimited},
}

// An area is a folder of packages whose files should need each other in one direction.
type area struct {
	folder string
	// limit bounds the arrows against the best order, summed over the packages.
	limit int
}

var areas = []area{
	{folder: "internal/scheduler", limit: 19},
	{folder: "internal/cardquota", limit: 2},
	{folder: "internal/quota", limit: 0},
	{folder: "internal/validation", limit: 0},
	{folder: "internal/webhook", limit: 0},
}
