package main

import (
	"path"
	"slices"
	"strings"

	"cardquota.dev/operator/hack/style/form"
)

// A tree is what was measured of a repository.
type tree struct {
	product, others *figures
	packages        []areaPackage
}

// An areaPackage is a package of an area, with the arrows between its files.
type areaPackage struct {
	name                    string
	files, longest          int
	arrows, against, inArea int
	isExact                 bool
}

// measureTree measures the Go files below root.
func measureTree(root string) (tree, error) {
	measured := tree{product: newFigures(), others: newFigures()}
	packages := map[string][]form.File{}
	err := form.WalkGo(root, func(name string, file form.File) {
		if !isProduct(name) {
			measured.others.add(name, file)
			return
		}

		measured.product.add(name, file)
		packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
	})
	if err != nil {
		return measured, err
	}

	for name, files := range packages {
		inArea := slices.IndexFunc(areas, func(a area) bool { return a.contains(name) })
		if inArea >= 0 {
			measured.packages = append(measured.packages, measurePackage(name, files, inArea))
		}
	}

	slices.SortFunc(measured.packages, func(a, b areaPackage) int { return strings.Compare(a.name, b.name) })
	return measured, nil
}

func (a area) contains(folder string) bool {
	return folder == a.folder || strings.HasPrefix(folder, a.folder+"/")
}

func measurePackage(name string, files []form.File, inArea int) areaPackage {
	between := findArrows(files)
	measured := areaPackage{name: name, files: len(files), arrows: between.count(), inArea: inArea}
	measured.against, measured.isExact = between.against()
	for _, file := range files {
		measured.longest = max(measured.longest, file.Lines())
	}

	return measured
}
