-- purpose: what a target's exposition turned out to be, and what it lacks
-- parameters: target, found_kind, role, missing, notes
UPDATE target SET found_kind = $found_kind, role = $role, missing = $missing, notes = $notes
WHERE target = $target
