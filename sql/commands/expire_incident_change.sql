-- purpose: the history of incidents that ended before the retention goes; that of open ones stays
-- parameters: before (UTC)
DELETE FROM incident_change WHERE ts < $before
  AND incident_id NOT IN (SELECT incident_id FROM incident WHERE resolved_at IS NULL)
