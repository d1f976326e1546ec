//! Strongly connected components of a graph.

use std::collections::BTreeMap;

/// Successors of each node, by their indices.
pub(super) type Graph = Vec<Vec<usize>>;

/// Returns the sets of two or more nodes of which each one can be reached from each other one (Tarjan's algorithm).
pub(super) fn cycles(graph: &Graph) -> Vec<Vec<usize>> {
    let mut search = Search {
        graph,
        order: BTreeMap::new(),
        lowest: vec![0; graph.len()],
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in 0..graph.len() {
        if !search.order.contains_key(&node) {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    order: BTreeMap<usize, usize>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        let order = self.order.len();
        self.order.insert(node, order);
        self.lowest[node] = order;
        self.stack.push(node);
        for &next in &self.graph[node] {
            match self.order.get(&next) {
                None => {
                    self.visit(next);
                    self.lowest[node] = self.lowest[node].min(self.lowest[next]);
                }
                Some(&seen) if self.stack.contains(&next) => {
                    self.lowest[node] = self.lowest[node].min(seen);
                }
                Some(_) => {}
            }
        }
        if self.lowest[node] == order {
            let at = self.stack.iter().position(|&on| on == node).unwrap_or_default();
            let mut component = self.stack.split_off(at);
            component.sort_unstable();
            if component.len() > 1 {
                self.found.push(component);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_reach_each_other_are_a_cycle() {
        // 0 -> 1 -> 2 -> 0, 2 -> 3, 4 -> 3, 5 <-> 6
        let graph = vec![vec![1], vec![2], vec![0, 3], vec![], vec![3], vec![6], vec![5]];
        assert_eq!(cycles(&graph), [vec![0, 1, 2], vec![5, 6]]);
        assert!(cycles(&vec![vec![1], vec![2], vec![]]).is_empty());
    }
}
