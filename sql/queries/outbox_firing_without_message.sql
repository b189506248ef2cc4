-- purpose: channels that hold no message about incidents that fire: those configured after it had fired
-- parameters: incident_ids, channels (lists)
-- grain: incident and channel
SELECT i.incident_id, c.channel
FROM (SELECT unnest($incident_ids::VARCHAR[]) AS incident_id) i
CROSS JOIN (SELECT unnest($channels::VARCHAR[]) AS channel) c
ANTI JOIN (SELECT incident_id, channel FROM outbox WHERE event = 'fired') o
  ON o.incident_id = i.incident_id AND o.channel = c.channel
