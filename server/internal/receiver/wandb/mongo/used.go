package mongo

// Uses says whether the filter asks a Record for a field of [Fields].
func (f *Filter) Uses(name string) bool { return f.root.uses(name) }

func (n *node) uses(name string) bool {
	if n.act == field {
		return n.path.field == name
	}
	for _, kid := range n.kids {
		if kid.uses(name) {
			return true
		}
	}
	return false
}

// Uses says whether the order asks a Record for a field of [Fields].
func (o Order) Uses(name string) bool {
	for i := range o.keys {
		if o.keys[i].path.field == name {
			return true
		}
	}
	return false
}
