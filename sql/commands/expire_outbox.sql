-- purpose: messages that were sent or given up go after the retention; those still waiting stay, and those of
--          incidents that have not ended by then: what was told, and to whom the end is to be told, is known by them
-- parameters: before (UTC)
DELETE FROM outbox WHERE created_at < $before AND state IN ('sent', 'failed')
  AND incident_id NOT IN (SELECT incident_id FROM incident WHERE resolved_at IS NULL OR resolved_at >= $before)
