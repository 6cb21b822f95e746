package main

import (
	"math/bits"
	"math/rand/v2"
)

// maxExactFiles bounds the files in a circle for which every order is tried. For 22 files that takes
// a third of a second.
const maxExactFiles = 22

// maxStarts is the number of orders from which the search in larger circles starts.
const maxStarts = 1000

// against returns the number of arrows that run against the order of the files that has the fewest
// of them, and whether no order can have fewer. An arrow runs down, from what uses to what declares.
// Only arrows within a circle can run against the best order.
func (a arrows) against() (count int, isExact bool) {
	isExact = true
	for _, circle := range a.circles() {
		inside := a.between(circle)
		if len(circle) > maxExactFiles {
			count += inside.improveOrder()
			isExact = false
			continue
		}

		count += inside.tryOrders()
	}

	return count, isExact
}

// circles returns the groups of files that all reach each other.
func (a arrows) circles() [][]int {
	reach := a.between(allFiles(len(a)))
	for via := range reach {
		for from := range reach {
			for to := range reach {
				reach[from][to] = reach[from][to] || (reach[from][via] && reach[via][to])
			}
		}
	}

	var circles [][]int
	isDone := make([]bool, len(a))
	for i := range a {
		if isDone[i] {
			continue
		}

		circle := []int{i}
		for j := i + 1; j < len(a); j++ {
			if reach[i][j] && reach[j][i] {
				circle = append(circle, j)
				isDone[j] = true
			}
		}
		circles = append(circles, circle)
	}

	return circles
}

func allFiles(count int) []int {
	files := make([]int, count)
	for i := range files {
		files[i] = i
	}

	return files
}

// between returns a copy of the arrows between some files.
func (a arrows) between(files []int) arrows {
	part := newArrows(len(files))
	for i, from := range files {
		for j, to := range files {
			part[i][j] = a[from][to]
		}
	}

	return part
}

// tryOrders returns the least number of arrows that run up in any order. best[set] is that number
// for the files of set when they stand above all others.
func (a arrows) tryOrders() int {
	uses := make([]uint32, len(a))
	for i, row := range a {
		for j, isArrow := range row {
			if isArrow {
				uses[i] |= 1 << j
			}
		}
	}

	best := make([]uint16, 1<<len(a))
	for set := 1; set < len(best); set++ {
		least := len(a) * len(a)
		for rest := uint32(set); rest != 0; rest &= rest - 1 {
			last := bits.TrailingZeros32(rest)
			above := uint32(set) &^ (1 << last)
			least = min(least, int(best[above])+bits.OnesCount32(uses[last]&above))
		}
		best[set] = uint16(least)
	}

	return int(best[len(best)-1])
}

// improveOrder returns the number of arrows that run up in a good order: the best of many starts,
// each improved until no file has a better place. The starts are the same in every run.
func (a arrows) improveOrder() int {
	least := a.count()
	order := allFiles(len(a))
	random := rand.New(rand.NewPCG(1, 1))
	for range maxStarts {
		random.Shuffle(len(order), func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
		for a.moveFiles(order) {
		}
		least = min(least, a.countUp(order))
	}

	return least
}

// moveFiles moves each file to its best place among the others, and reports whether one moved.
func (a arrows) moveFiles(order []int) bool {
	hasMoved := false
	for at := range order {
		if to := a.bestPlace(order, at); to != at {
			moveFile(order, at, to)
			hasMoved = true
		}
	}

	return hasMoved
}

// bestPlace returns where the file at a place has the fewest arrows that run up, its own place
// where no other is better.
func (a arrows) bestPlace(order []int, at int) int {
	file := order[at]
	best := at
	most := 0
	for _, step := range []int{-1, 1} {
		gain := 0
		for to := at + step; to >= 0 && to < len(order); to += step {
			passed := order[to]
			gain += step * (count(a[passed][file]) - count(a[file][passed]))
			if gain > most {
				most = gain
				best = to
			}
		}
	}

	return best
}

func count(isArrow bool) int {
	if isArrow {
		return 1
	}
	return 0
}

func moveFile(order []int, from, to int) {
	file := order[from]
	if from < to {
		copy(order[from:], order[from+1:to+1])
	} else {
		copy(order[to+1:], order[to:from])
	}
	order[to] = file
}

func (a arrows) countUp(order []int) int {
	up := 0
	for below, file := range order {
		for _, above := range order[:below] {
			up += count(a[file][above])
		}
	}

	return up
}
