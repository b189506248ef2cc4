-- purpose: messages that were sent or given up go after the retention; those still waiting stay
-- parameters: before (UTC)
DELETE FROM outbox WHERE created_at < $before AND state IN ('sent', 'failed')
