-- purpose: the targets whose counters alternate between workers, as noted at their last answer
-- parameters: note (the text that says so)
-- grain: target; ts is its last engine sample, or when it was last in the list
SELECT t.target, coalesce(max(e.ts), max(t.last_seen)) AS ts
FROM target t LEFT JOIN engine_sample e USING (target)
WHERE list_contains(t.notes, $note)
GROUP BY t.target
