-- purpose: note a new list of bucket edges; returns its id
-- parameters: edges (seconds, ascending, last is +Inf)
INSERT INTO edge_set
SELECT coalesce(max(edge_set_id), 0) + 1, $edges::DOUBLE[] FROM edge_set
RETURNING edge_set_id
