-- purpose: note how far a target of a source was read
-- parameters: source, target, labels (JSON object), last_ts
INSERT INTO pull_progress (source, target, labels, last_ts) VALUES ($source, $target, $labels, $last_ts)
