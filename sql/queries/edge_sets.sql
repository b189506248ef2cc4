-- purpose: all bucket edge lists, to know them again after a restart
-- grain: one edge set
SELECT edge_set_id, edges_seconds FROM edge_set ORDER BY edge_set_id
