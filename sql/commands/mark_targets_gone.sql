-- purpose: targets that left the list are gone, which is not the same as down
-- parameters: names (all that are listed), now
UPDATE target SET gone_at = $now
WHERE gone_at IS NULL AND NOT list_contains($names::VARCHAR[], target)
