-- purpose: of which incidents a channel has been told that they fired
-- parameters: channel, incident_ids (list)
-- grain: incident
SELECT incident_id FROM outbox
WHERE channel = $channel AND event = 'fired' AND state = 'sent'
  AND incident_id IN (SELECT unnest($incident_ids::VARCHAR[]))
