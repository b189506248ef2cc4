-- purpose: incidents that ended before the retention go, unless a message about them still waits
-- parameters: before (UTC)
DELETE FROM incident WHERE resolved_at < $before
  AND incident_id NOT IN (SELECT incident_id FROM outbox WHERE state IN ('waiting', 'sending'))
