-- purpose: targets that left the list are gone, which is not the same as down
-- parameters: names (all that are listed), left (those that were listed before and are no more), unsettled (origins
--             of which a list could not be had since the start: what was not listed since may still be there), now
UPDATE target SET gone_at = $now
WHERE gone_at IS NULL AND target NOT IN (SELECT unnest($names::VARCHAR[]))
  AND (
    target IN (SELECT unnest($left::VARCHAR[]))
    OR NOT coalesce(list_contains($unsettled::VARCHAR[], origin), false)
  )
