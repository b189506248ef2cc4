-- purpose: what a target's exposition turned out to be, what it lacks, and by which names it was read
-- parameters: target, found_kind, role, missing, notes, found_names (JSON object)
UPDATE target SET found_kind = $found_kind, role = $role, missing = $missing, notes = $notes, found_names = $found_names
WHERE target = $target
