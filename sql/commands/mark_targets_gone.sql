-- purpose: targets that left the list are gone, which is not the same as down
-- parameters: names (all that are listed), unsettled (origins of which a list could not be had since the start:
--             what it lacks may still be there), now
UPDATE target SET gone_at = $now
WHERE gone_at IS NULL AND target NOT IN (SELECT unnest($names::VARCHAR[]))
  AND NOT coalesce(list_contains($unsettled::VARCHAR[], origin), false)
