"""Contact of cloth: broad phase, narrow phase, response by impulses or penalty springs, untangling, and an audit."""
