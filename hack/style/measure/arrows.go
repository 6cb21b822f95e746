package main

import (
	"go/ast"
	"go/types"
	"path"

	"cardquota.dev/operator/hack/style/form"
)

// arrows says of two files of a package, by index, whether the first uses what the second declares.
type arrows [][]bool

func newArrows(files int) arrows {
	between := make(arrows, files)
	for i := range between {
		between[i] = make([]bool, files)
	}

	return between
}

func (a arrows) count() int {
	count := 0
	for _, row := range a {
		for _, isArrow := range row {
			if isArrow {
				count++
			}
		}
	}

	return count
}

// findArrows returns the arrows between the files of a package. A file uses the declarations of the
// package and the methods of its types that it names. Fields do not count: they come with their
// type. All imports are empty packages, so types of other packages are unknown. That costs the
// methods of what generic functions of other packages return, which is rare.
func findArrows(files []form.File) arrows {
	trees := make([]*ast.File, len(files))
	indexes := map[string]int{}
	for i, file := range files {
		trees[i] = file.File
		indexes[file.Positions.Position(file.FileStart).Filename] = i
	}

	positions := files[0].Positions
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyImports{}, Error: func(error) {}}
	declared, _ := config.Check(files[0].Name.Name, positions, trees, info) // the errors are those of unknown types

	for _, tree := range trees {
		addTypeArguments(info.Uses, tree, declared)
	}

	between := newArrows(len(files))
	for name, object := range info.Uses {
		if !isOwn(object, declared) {
			continue
		}

		from := indexes[positions.Position(name.Pos()).Filename]
		to := indexes[positions.Position(object.Pos()).Filename]
		if from != to {
			between[from][to] = true
		}
	}

	return between
}

// addTypeArguments adds the uses in the brackets of generic types and functions of other packages.
// The type checker does not look there while it does not know what is generic.
func addTypeArguments(uses map[*ast.Ident]types.Object, tree *ast.File, declared *types.Package) {
	add := func(argument ast.Node) {
		ast.Inspect(argument, func(node ast.Node) bool {
			if _, ok := node.(*ast.SelectorExpr); ok { // a name of another package, or a field
				return false
			}

			name, ok := node.(*ast.Ident)
			if ok && uses[name] == nil && declared.Scope().Lookup(name.Name) != nil {
				uses[name] = declared.Scope().Lookup(name.Name)
			}

			return true
		})
	}

	ast.Inspect(tree, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IndexExpr:
			add(node.Index)
		case *ast.IndexListExpr:
			for _, argument := range node.Indices {
				add(argument)
			}
		}

		return true
	})
}

// isOwn reports whether object is a declaration of the package or a method of its types.
func isOwn(object types.Object, declared *types.Package) bool {
	_, isFunction := object.(*types.Func)
	return object.Pkg() == declared && object.Pos().IsValid() && (isFunction || object.Parent() == declared.Scope())
}

// emptyImports imports every package without what it declares.
type emptyImports struct{}

func (emptyImports) Import(name string) (*types.Package, error) {
	imported := types.NewPackage(name, path.Base(name))
	imported.MarkComplete()
	return imported, nil
}
