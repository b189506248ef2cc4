-- purpose: whether there is anything to do: messages that wait or are being sent, by channel. `ended`: when the
--          longest past of the incidents ended (a message about no known incident: when it was written);
--          NULL when all still fire
-- grain: channel
SELECT o.channel, count(*) AS messages, count(*) FILTER (o.state = 'sending') AS sending,
       any_value(c.state) AS channel_state, any_value(c.next_send_at) AS next_send_at, any_value(c.run) AS run,
       min(greatest(o.created_at, i.resolved_at)) FILTER (i.state IS DISTINCT FROM 'firing') AS ended
FROM outbox o LEFT JOIN channel c USING (channel) LEFT JOIN incident i USING (incident_id)
WHERE o.state IN ('waiting', 'sending')
GROUP BY o.channel
