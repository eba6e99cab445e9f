"""Labelled pairs of statements that the matcher is tuned on: the development half.

Each pair is (category, service, older text, newer text, label); the labels are same,
contradicting, distinct and undecided. The other half, `pairs_blind`, is never tuned on.
"""

# ruff: noqa: E501 - one pair in each line
from __future__ import annotations

from typing import Final

_SAME: Final = """
dependency | caddy | Must be started after WireGuard — fails with 'no route to host' otherwise | Caddy fails if started before WireGuard
maintenance | postgres | Needs manual VACUUM FULL weekly or performance degrades | Postgres needs a manual vacuum weekly
behavior | jellyfin | First restart attempt always fails due to DB lock; second attempt succeeds | Restarting Jellyfin always fails on the first attempt but succeeds on the second, after the database releases its lock
timing | jellyfin | Takes 60s to start after restart | Takes about 60 seconds to start after a restart
timing | gitea | Gitea needs roughly two minutes to come up after an upgrade | After upgrades Gitea is only reachable once about 120 seconds have passed
timing | nextcloud | The cron job runs every 5 minutes | Nextcloud's cron fires once every five minutes
timing | postgres | Nightly backup begins at 02:00 and finishes around 02:40 | The backup runs from 2 am until about 2:40 am each night
timing | grafana | Dashboards are slow for the first 3 minutes after boot | For three minutes after booting, Grafana's dashboards load slowly
timing | traefik | Certificates are renewed 30 days before they expire | Traefik renews its certs thirty days ahead of expiry
timing | redis | Loading the dump file at startup takes 45 seconds | Redis spends 45s reading its dump when it starts
timing | prometheus | WAL replay delays readiness by up to 5 minutes | Prometheus is not ready for up to five minutes because it replays the WAL
timing | sonarr | The indexer search times out after 100 seconds | Searches on the indexer hit a 100 s timeout
timing | immich | Thumbnail generation finishes about an hour after a large upload | It takes around 60 minutes to generate thumbnails following a big upload
timing | mqtt | Clients reconnect within 10 seconds of a broker restart | After the broker restarts, clients are back within 10s
timing | backup | The weekly full backup lasts around 4 hours | A full backup, done weekly, needs about four hours
timing | loki | Log ingestion lags 15 seconds behind | There is a delay of 15 s before logs show up
timing | unifi | The controller needs 3 minutes before the web UI answers | Expect three minutes until the controller's web interface responds
timing | plex | Library scan is scheduled for 04:30 | Plex scans its library at 4:30 am
dependency | sonarr | Needs the NFS share mounted before it starts | The NFS mount must exist before Sonarr is started
dependency | gitea | Requires PostgreSQL to be running first | Postgres has to be up before Gitea
dependency | grafana | Cannot start without the Prometheus data source | Grafana fails to start if the Prometheus data source is missing
dependency | homeassistant | Relies on the MQTT broker for all sensors | All sensors depend on the MQTT broker
dependency | nextcloud | Background jobs stop working when Redis is down | Nextcloud's background jobs depend on Redis being up
dependency | traefik | The docker socket must be mounted or no routes are discovered | Without the docker socket mounted, Traefik discovers no routes
dependency | pihole | DNS resolution for the whole LAN depends on it | If it is down, nothing on the LAN can resolve DNS
dependency | radarr | Start qBittorrent before Radarr | Radarr should only be started once qBittorrent is running
dependency | authelia | LDAP has to be reachable at startup, otherwise it exits | Exits on startup when LDAP is unreachable
dependency | immich | The machine learning container must be up before the server container | Bring up the machine learning container first, then the server container
dependency | vaultwarden | Needs a valid TLS certificate or browsers refuse to log in | Browser logins are refused unless the TLS certificate is valid
dependency | loki | Requires at least 2 GB of free disk to start | Won't start with less than 2 GB of free disk space
dependency | keycloak | Must wait for the database migration to finish | Keycloak can only start after the database migration has completed
dependency | jellyfin | Hardware transcoding requires /dev/dri to be passed through | Without /dev/dri passed into the container there is no hardware transcoding
dependency | caddy | DNS must resolve before certificates can be issued | Certificates cannot be issued until DNS resolves
dependency | mail | Outgoing mail depends on the relay being reachable | No mail is sent while the relay is unreachable
dependency | zigbee | The USB dongle has to be plugged in before the container starts | Plug in the USB dongle before starting the container
behavior | postgres | Drops all connections when the config is reloaded | A config reload kills every open connection
behavior | jellyfin | Memory grows steadily during transcoding and is never released | Transcoding leaks memory: usage keeps rising and isn't freed
behavior | nginx | Returns 502 while the upstream restarts | During an upstream restart, clients see 502 errors
behavior | redis | Refuses writes when the disk is full | With a full disk, Redis rejects all writes
behavior | gitea | Webhooks are silently dropped if the queue is full | When its queue fills up, Gitea discards webhooks without an error
behavior | prometheus | Loses the last two hours of samples on an unclean shutdown | An ungraceful shutdown costs the most recent two hours of samples
behavior | sonarr | Health check reports OK even when the database is locked | The health endpoint says ok although the database is locked
behavior | unifi | The web UI logs everyone out after an upgrade | After upgrading, all users are logged out of the web interface
behavior | docker | Containers lose network access after a firewall reload | Reloading the firewall cuts the containers off from the network
behavior | pihole | Ignores local DNS records until the resolver is restarted | Local DNS records only take effect once the resolver has been restarted
behavior | nextcloud | Uploads larger than 2 GB fail with a timeout | Files over 2 GB time out when uploaded
behavior | immich | Duplicate detection misses files with changed EXIF data | If EXIF data was changed, duplicates are not detected
behavior | minio | Healing after a disk swap saturates the network | The network is saturated while it heals after a disk replacement
behavior | traefik | Config errors are only logged at debug level | You only see configuration errors in the log at debug level
behavior | kafka | A rebalance stops all consumers for some seconds | Consumers pause for several seconds during each rebalance
behavior | plex | High CPU during library scans is normal | It is normal for library scans to use a lot of CPU
behavior | | DNS checks can fail while WireGuard reconnects | During a WireGuard reconnect, DNS checks sometimes fail
remediation | jellyfin | Deleting the transcode cache frees the disk | Disk space is recovered by clearing the transcode cache
remediation | postgres | Restarting pgbouncer clears exhausted connections | When connections are exhausted, a restart of pgbouncer helps
remediation | redis | A restart does not help; the corrupted dump file must be removed | Remove the corrupt dump file, restarting alone is useless
remediation | gitea | Running doctor check --fix repairs broken hooks | Broken hooks are fixed by doctor check --fix
remediation | sonarr | Restart twice to get rid of the database lock | The database lock goes away after restarting it two times
remediation | nginx | Reloading is enough after changing the config | A reload suffices for config changes
remediation | homeassistant | Replugging the Zigbee stick brings devices back | Devices come back after the Zigbee stick is replugged
remediation | docker | Pruning unused images resolves disk pressure | Disk pressure can be relieved by pruning images that are unused
remediation | | When a DNS check fails, retry it once before acting | Retry failed DNS checks once before doing anything
remediation | nextcloud | Turn off maintenance mode manually with occ if an upgrade aborts | After an aborted upgrade, maintenance mode must be disabled by hand with occ
remediation | prometheus | Deleting the WAL directory fixes the crash loop | The crash loop is cured by removing the WAL directory
remediation | vaultwarden | Restoring yesterday's SQLite file solves corruption | Corruption is solved by restoring the SQLite file from yesterday
remediation | caddy | Clear the ACME lock file when issuance hangs | If certificate issuance hangs, delete the ACME lock file
remediation | minio | Adding swap stops the OOM kills | OOM kills stop once swap is added
remediation | unifi | Rebooting the access point restores Wi-Fi roaming | Wi-Fi roaming works again after the access point is rebooted
maintenance | postgres | Run VACUUM FULL weekly | VACUUM FULL has to be executed every week
maintenance | docker | Unused images must be pruned monthly | Prune unused images once a month
maintenance | caddy | The internal CA has to be renewed by hand every year | Each year the internal CA needs manual renewal
maintenance | gitea | Old action logs should be purged every 90 days | Delete old action logs quarterly
maintenance | nextcloud | Run occ db:add-missing-indices after every upgrade | After each upgrade, occ db:add-missing-indices must be run
maintenance | backup | Restore tests are due every quarter | Backups need a restore test quarterly
maintenance | zfs | Scrub the pool every two weeks | The pool needs a scrub biweekly
maintenance | loki | Retention has to be trimmed by hand each month | Monthly, somebody must manually trim the retention
maintenance | unifi | Back up the controller config before each firmware update | Before every firmware update, take a backup of the controller configuration
maintenance | sonarr | The log database grows and must be cleared every week | Clear the log database weekly because it grows
maintenance | influx | Shards older than a year need to be dropped manually | Manually drop shards that are more than one year old
maintenance | mail | DKIM keys are rotated twice a year | Rotate the DKIM keys every six months
timing | vault | Vault stays sealed for about 20 seconds after the pod comes up. | Expect roughly twenty seconds before Vault is unsealed once its pod has started.
timing | postgres | The nightly dump starts at 1:30 am and blocks DDL until it is done. | DDL is blocked from 01:30 until the nightly dump completes.
timing | frigate | Recording segments show up in the UI with a delay of up to ten minutes. | It can take as long as 10 min until recordings appear in the Frigate interface.
timing | elasticsearch | A cold cluster needs 4 to 5 minutes to go green. | From a cold start, the cluster turns green only after four to five minutes.
timing | rabbitmq | Mirrored queues take about a minute to resync after a node rejoins. | When a node rejoins, resyncing mirrored queues takes around 60 seconds.
timing | cloudflared | The tunnel reconnects by itself within 30 s of an outage. | After an outage, cloudflared re-establishes its tunnel automatically in half a minute.
timing | paperless | OCR of a big scan can occupy the worker for 15 minutes. | A large scan keeps the OCR worker busy for a quarter of an hour.
timing | syncthing | A full rescan happens every hour. | Folders are completely rescanned hourly.
timing | minecraft | World saving freezes the server for about 5 seconds every 10 minutes. | Every ten minutes there's a five second freeze while the world is saved.
timing | proxmox | Backups kick off at 22:00 and slow every VM down until midnight. | From 10 pm to midnight all VMs are slow because backups run.
timing | k8s | Pods get 90 seconds to shut down gracefully before they are killed. | Kubernetes kills pods that have not terminated gracefully after a minute and a half.
timing | etcd | Leader election takes up to 3 seconds following a node loss. | When a node is lost it may be three seconds until a new leader is elected.
timing | matrix | Federation catch-up after downtime lasts half an hour or so. | After having been down, it needs about 30 minutes to catch up with federated servers.
timing | ceph | Scrubs are only allowed between 1 am and 6 am. | Scrubbing is restricted to the window from 01:00 to 06:00.
timing | unbound | Cached negative answers live for 5 minutes. | NXDOMAIN responses are cached 300 seconds.
timing | gitlab | The runner polls for new jobs every 3 seconds. | New jobs are polled for by the runner at 3-second intervals.
timing | influxdb | Compaction normally begins at four in the morning and takes an hour. | Around 04:00 a compaction sets in that lasts about 60 minutes.
timing | zigbee | Battery devices report only every 55 minutes. | Devices running on battery send a report just once in 55 min.
dependency | vault | Vault needs Consul to be reachable before it can unseal. | Unsealing Vault fails unless Consul can be reached.
dependency | frigate | Frigate will not start unless the Coral TPU is attached. | The Coral TPU must be plugged in for Frigate to start.
dependency | matrix | Synapse has to be started after Postgres, or it crash loops. | Start Postgres first; otherwise Synapse ends up in a crash loop.
dependency | paperless | Document consumption requires Redis and Gotenberg to be running. | Paperless can't consume documents without Redis and Gotenberg up.
dependency | k8s | CoreDNS must be ready before any operator is installed. | Install operators only once CoreDNS is ready.
dependency | jellyfin | Live TV depends on the tuner network being up. | Without the tuner network, live TV is unavailable.
dependency | influxdb | Telegraf must not be started until InfluxDB accepts writes. | Wait for InfluxDB to accept writes before starting Telegraf.
dependency | unifi | The controller cannot run without MongoDB 4.4. | MongoDB 4.4 is a hard requirement of the controller.
dependency | ceph | OSDs refuse to boot when clocks are out of sync, so NTP comes first. | NTP must be working before OSDs are booted; they refuse with unsynchronised clocks.
dependency | cloudflared | Needs outbound port 7844 open in the firewall. | If the firewall blocks outgoing 7844, cloudflared does not connect.
dependency | gitlab | Sidekiq jobs pile up whenever Redis is gone. | Loss of Redis makes Sidekiq's jobs accumulate.
dependency | immich | Relies on the pgvecto.rs extension being installed in Postgres. | Immich needs the pgvecto.rs extension in its Postgres database.
dependency | traefik | Traefik obtains certificates only if port 80 is reachable from outside. | Port 80 has to be reachable from the internet for Traefik to get certificates.
dependency | rabbitmq | All nodes need the same Erlang cookie to form a cluster. | Clustering fails unless every node shares one Erlang cookie.
dependency | minecraft | The proxy has to come up after the backend servers. | Start the backend servers before the proxy.
dependency | nextcloud | Collabora must be able to reach Nextcloud over HTTPS, else documents do not open. | Documents fail to open when Collabora can't reach Nextcloud via HTTPS.
dependency | prometheus | Alert delivery hinges on Alertmanager being up. | No alerts go out while Alertmanager is down.
dependency | homeassistant | Requires the Zigbee bridge to be online before automations are loaded. | Automations should be loaded only after the Zigbee bridge is online.
behavior | vault | Vault seals itself again whenever the container is recreated. | Recreating the container leaves Vault sealed.
behavior | rabbitmq | Publishers get blocked as soon as memory passes the high watermark. | Once memory use exceeds the high watermark, RabbitMQ blocks publishers.
behavior | frigate | Detection silently stops working when the camera switches codec. | If a camera changes its codec, detection dies without any error.
behavior | elasticsearch | Indices become read-only once the disk is 95% full. | At 95 percent disk usage all indices are switched to read-only.
behavior | k8s | Evicted pods linger in the list until someone deletes them. | Pods that were evicted stay listed until they are deleted by hand.
behavior | paperless | Duplicated documents are rejected without telling the user. | It drops duplicate documents and gives the user no notice.
behavior | syncthing | Conflict copies pile up if two devices edit the same file offline. | When the same file is edited on two offline devices, conflict files accumulate.
behavior | proxmox | The web UI shows question marks for all VMs when pvestatd hangs. | A hung pvestatd makes every VM appear as unknown in the web interface.
behavior | matrix | Media uploads over 50 MB are refused with a 413. | Uploading media larger than 50 MB gives HTTP 413.
behavior | gitlab | CI jobs stay pending if no runner has the right tag. | Without a runner with the matching tag, pipelines' jobs remain pending.
behavior | etcd | The database keeps growing until it is defragmented. | Without defragmentation the DB never stops growing.
behavior | minecraft | Plugins are reloaded incorrectly by /reload; only a full restart is reliable. | /reload does not load plugins properly, so do a complete restart instead.
behavior | unbound | Returns SERVFAIL for a while after the WAN link flaps. | Following a flap of the WAN link, queries get SERVFAIL for some time.
behavior | influxdb | High-cardinality tags make it run out of memory. | It gets OOM-killed when tags have a high cardinality.
behavior | cloudflared | Logs reconnect warnings every few minutes, which is harmless. | The frequent warnings about reconnects in its log can be ignored.
behavior | ceph | Health goes to WARN during deep scrubs even though nothing is wrong. | A deep scrub puts the health status to WARN without a real problem.
behavior | grafana | Provisioned dashboards can't be saved from the UI. | Saving a provisioned dashboard in the UI is not possible.
behavior | nginx | Keeps serving the old certificate until it is reloaded. | A new certificate is only used after nginx was reloaded.
remediation | vault | If unsealing hangs, restart Consul first. | A restart of Consul gets a hanging unseal going again.
remediation | frigate | Power cycling the Coral stick brings detection back. | Detection recovers after unplugging and replugging the Coral stick.
remediation | elasticsearch | Clearing the read-only block by hand makes indexing work again. | Indexing resumes when you remove the read-only block manually.
remediation | rabbitmq | Stuck queues are fixed by restarting the node that owns them. | Restart the owning node when a queue is stuck.
remediation | k8s | Deleting the pod is enough to clear ImagePullBackOff. | ImagePullBackOff goes away if the pod is deleted.
remediation | matrix | Vacuuming the state tables shrinks the database considerably. | The database gets a lot smaller by running a vacuum over the state tables.
remediation | gitlab | When pages return 502, give Puma five minutes instead of restarting it. | Don't restart Puma on 502 errors; waiting 5 minutes is enough.
remediation | etcd | Defragmenting one member at a time resolves the space alarm. | To get rid of the space alarm, defragment member by member.
remediation | proxmox | Restarting pvestatd brings the status icons back. | Status icons return after a restart of pvestatd.
remediation | paperless | Re-running the index command repairs missing search results. | Missing search results are fixed by running the index command again.
remediation | syncthing | Resetting the database helps when a folder is stuck at 99%. | A folder that hangs at 99 percent recovers after a database reset.
remediation | minecraft | Removing session.lock lets the world load after a crash. | After a crash, delete session.lock so that the world loads.
remediation | unbound | Flushing the cache does not cure stale records; restart it instead. | For stale records only a restart helps, flushing the cache is useless.
remediation | ceph | Setting noout before maintenance prevents needless rebalancing. | Set the noout flag prior to maintenance to avoid a rebalance.
remediation | immich | Restart the microservices container if thumbnails stop being generated. | When no more thumbnails are generated, restarting the microservices container fixes it.
remediation | jellyfin | Playback errors vanish when hardware acceleration is turned off. | Disabling hardware acceleration gets rid of playback errors.
remediation | | Killing the stuck rsync process releases the backup lock. | The backup lock is freed by killing the rsync that hangs.
remediation | caddy | Deleting the stale ACME lock lets certificate renewal continue. | Renewal of certificates proceeds once the stale ACME lock is removed.
maintenance | vault | Rotate the root token every 90 days. | The root token should be rotated once every three months or 90 days.
maintenance | elasticsearch | Old indices must be deleted by hand each month, there is no lifecycle policy. | Since no lifecycle policy exists, remove old indices manually every month.
maintenance | etcd | Defragment the members weekly. | Members need a defragmentation once a week.
maintenance | gitlab | Clean up the container registry monthly or the disk fills up. | The disk fills unless the container registry is cleaned every month.
maintenance | matrix | Purge remote media older than 30 days once a week. | Remote media over 30 days old has to be purged weekly.
maintenance | k8s | Certificates of the control plane expire after a year and need kubeadm renew. | Once a year the control plane certificates have to be renewed with kubeadm.
maintenance | proxmox | Apply kernel updates on the first Sunday of the month. | Kernel updates are installed every first Sunday of a month.
maintenance | paperless | Export all documents to the NAS every night. | A nightly export of all documents goes to the NAS.
maintenance | influxdb | Check the retention policies after each upgrade. | Retention policies have to be verified following every upgrade.
maintenance | minecraft | The server must be restarted daily, otherwise it leaks memory. | It leaks memory and therefore needs a daily restart.
maintenance | ceph | Replace an OSD when SMART reports reallocated sectors. | OSDs with reallocated sectors in SMART have to be swapped.
maintenance | unbound | Refresh the root hints file twice a year. | Root hints need refreshing every six months.
maintenance | zigbee | Change the batteries of the door sensors every year. | Door sensors need new batteries annually.
maintenance | postgres | Bloat builds up fast, so REINDEX the events table every month. | The events table has to be reindexed monthly because of bloat.
maintenance | | TLS certificates on the switches are renewed manually every 12 months. | Once a year someone has to renew the switches' TLS certificates by hand.
maintenance | frigate | Recordings older than two weeks are purged automatically, nothing to do. | There's no need to clean up recordings: they are removed automatically after 14 days.
timing | mosquitto | Retained messages are redelivered about 15 seconds after a client subscribes. | Once a client has subscribed, it gets its retained messages roughly fifteen seconds later.
timing | nextcloud | Preview generation runs nightly at half past three and is done by five. | Every night from 3:30 to 5:00 previews are generated.
timing | wireguard | Peers behind NAT lose the session after two minutes of silence. | After 120 seconds without traffic, the session of NATed peers is gone.
timing | mariadb | Applying the relay log after a replica restart takes up to a quarter of an hour. | When the replica is restarted, expect as much as 15 minutes for the relay log to be applied.
timing | authelia | Sessions expire after an hour of inactivity. | Idle users are signed out after 60 minutes.
timing | prowlarr | Indexer health is rechecked only every six hours. | The health of indexers gets checked again just four times a day.
timing | synology | Hibernating disks need ten seconds to spin up, so first reads are slow. | First reads stall for some 10 s because the disks have to spin up from hibernation.
timing | argocd | Sync waves take three minutes altogether. | All sync waves together last around 3 min.
dependency | mosquitto | The bridge only connects once the remote broker's certificate is trusted. | Without trusting the remote broker's certificate, the bridge cannot connect.
dependency | plex | Remote access won't work unless port 32400 is forwarded. | Port 32400 must be forwarded for remote access to work.
dependency | mariadb | Galera needs at least three nodes for quorum. | With fewer than three nodes Galera has no quorum.
dependency | argocd | The repo server has to be healthy before applications can sync. | Applications fail to sync while the repo server is unhealthy.
dependency | kafka | Brokers register only after ZooKeeper is up. | ZooKeeper must be running before the brokers, otherwise they cannot register.
dependency | bookstack | It relies on the mail relay for password resets. | Password resets don't go out when the mail relay is down.
dependency | loki | Chunks go to MinIO, so MinIO has to be started first. | Start MinIO before Loki because chunks are stored there.
dependency | zigbee2mqtt | Won't boot if another process holds the serial port. | The serial port must not be in use by any other process, or it fails to boot.
behavior | mosquitto | Clients with the same id kick each other off in a loop. | Two clients sharing one client id keep disconnecting each other.
behavior | plex | Subtitles drift out of sync when the stream is transcoded. | During transcoding, subtitles get out of sync.
behavior | mariadb | Long transactions make the replica fall behind. | The replica lags whenever a transaction runs for long.
behavior | argocd | Manually changed resources are reverted within seconds. | Any manual change to a resource is undone after a few seconds.
behavior | pihole | The query log stops updating when the disk is full. | With no disk space left, the query log is no longer updated.
behavior | synology | Indexing hogs the CPU after many photos were uploaded. | Following a large photo upload the CPU is kept busy by indexing.
behavior | authelia | TOTP codes are rejected if the clock is off by more than 30 seconds. | A clock skew above 30 s makes it refuse TOTP codes.
behavior | postgres | Autovacuum is cancelled by lock conflicts and never finishes on the big table. | On the big table, autovacuum never completes since conflicting locks cancel it.
remediation | mosquitto | Dropping the persistence file cures a broker that won't boot. | If the broker does not start, delete its persistence file.
remediation | plex | Optimising the database speeds up slow searches. | Slow searches get faster after optimising the database.
remediation | argocd | A hard refresh makes stale manifests go away. | Stale manifests disappear with a hard refresh.
remediation | pihole | When lookups time out, flush the ARP cache of the router. | Flushing the router's ARP cache resolves lookup timeouts.
remediation | kafka | Increasing the session timeout stops the endless rebalances. | Endless rebalances end once the session timeout is raised.
remediation | mariadb | To bring a broken node back, wipe its grastate and let it resync. | A broken node recovers if grastate is deleted and it resyncs from scratch.
remediation | unifi | Forcing a re-provision fixes access points stuck in adopting. | Access points that hang while adopting are fixed by a forced re-provision.
maintenance | mosquitto | The password file needs to be regenerated each time a device is added. | Regenerate the password file whenever a device is added.
maintenance | plex | Empty the trash of each library after big deletions. | After large deletions the trash of every library has to be emptied.
maintenance | mariadb | Binary logs are not pruned by themselves, purge them weekly. | Purge the binary logs by hand every week, nothing does it automatically.
maintenance | synology | SMART extended tests should run every three months. | Run extended SMART tests quarterly.
maintenance | argocd | Rotate the repository deploy keys twice per year. | Every half year the deploy keys of the repositories have to be rotated.
maintenance | kafka | Check the partition balance following each broker replacement. | Whenever a broker has been replaced, partition balance must be checked.
maintenance | authelia | Back up the SQLite file before upgrading. | Take a backup of the SQLite file prior to each upgrade.
timing | homeassistant | Home Assistant needs close to four minutes before automations fire again after a core update. | After a core update, expect automations to stay silent for roughly four minutes.
timing | gitlab | Artifacts older than 30 days disappear during the Sunday cleanup run. | The cleanup on Sundays removes any artifacts that have aged past thirty days.
timing | kafka | Consumer lag peaks between 09:00 and 10:00 because of the morning import. | The morning import pushes consumer lag to its maximum from nine until ten o'clock.
timing | vaultwarden | The admin token session times out after 20 minutes without activity. | Leave the admin page alone for twenty minutes and you will be asked to log in again.
timing | postgres | Failover to the standby completes in about 45 seconds. | It takes some 45 s until the standby has taken over.
timing | prometheus | Rule evaluation lags by a minute or two whenever compaction is running. | While compaction is in progress, rules are evaluated one to two minutes late.
timing | restic | Pruning the repository holds an exclusive lock for nearly two hours. | For almost two hours the repository is exclusively locked by prune.
dependency | nextcloud | The server refuses to come up when the data directory is not mounted. | Nextcloud requires its data directory to be mounted before it will start.
dependency | grafana | Login breaks as soon as the LDAP server goes away. | Nobody can sign in to Grafana unless LDAP is reachable.
dependency | immich | Face recognition is only available while the machine learning service is up. | Without a running machine learning service there is no face recognition.
dependency | traefik | Bring the Docker socket proxy up ahead of Traefik. | Traefik expects the Docker socket proxy to be there already when it starts.
dependency | frigate | Frigate publishes its events over MQTT, so the broker has to be running first. | Make sure the MQTT broker is started prior to Frigate, which sends its events there.
dependency | mailserver | Incoming mail is deferred as long as rspamd cannot be contacted. | Rspamd must be reachable, otherwise inbound messages are put off.
dependency | gitea | The runner can only register once Gitea answers on its public URL. | Gitea's public URL has to respond before a runner can be registered.
behavior | jellyfin | Opening a large library makes the web client unresponsive for several seconds. | The web client freezes for a few seconds when a big library is opened.
behavior | redis | Memory usage roughly doubles while a snapshot is being written. | During snapshots Redis takes up about twice as much RAM.
behavior | pihole | Statistics reset to zero every time the container is recreated. | All statistics are lost when you recreate the container.
behavior | unifi | Cameras occasionally drop off the network when the controller is upgraded. | A controller upgrade can cause cameras to lose their connection.
behavior | postgres | The first query after an idle night is noticeably slower than the rest. | After a quiet night the initial query takes visibly longer than later ones.
behavior | docker | Log files grow without limit unless max-size is configured. | If no max-size is set, container logs keep getting bigger forever.
behavior | homeassistant | Renaming an entity breaks every dashboard card that refers to it. | Dashboard cards stop working once the entity they reference gets a new name.
behavior | nginx | Uploads above 100 MB are rejected with a 413 status. | Nginx answers 413 for any upload that exceeds 100 MB.
behavior | sonarr | Imports fail silently if the download client and Sonarr see different paths. | When paths differ between the download client and Sonarr, nothing is imported and no error is shown.
remediation | grafana | Clearing the browser cache makes the blank panels come back. | Blank panels can be fixed by emptying the browser's cache.
remediation | kafka | Rolling the brokers one at a time cures the under-replicated partitions. | Under-replicated partitions recover after a rolling restart of the brokers.
remediation | pihole | Rebuilding gravity sorts out a corrupted block list. | If the block list is corrupted, run a gravity rebuild.
remediation | docker | Restart the daemon when containers lose DNS resolution. | Lost DNS resolution in containers is remedied by bouncing the Docker daemon.
remediation | jellyfin | Switching the transcoder to software mode works around the green screen. | The green screen can be avoided by using software transcoding.
remediation | postgres | Terminating idle transactions frees the blocked autovacuum. | Autovacuum gets unblocked once idle transactions have been killed.
remediation | nextcloud | Running files:scan brings files copied by hand into view. | Files that were copied manually show up after a files:scan.
maintenance | gitea | The LFS store should be garbage collected every quarter. | Every three months, run a garbage collection over LFS objects.
maintenance | traefik | Renew the wildcard certificate by hand, the DNS provider has no API. | The DNS provider lacks an API, so the wildcard certificate needs manual renewal.
maintenance | mailserver | Check the blacklist status of the outgoing IP once a week. | Weekly, make sure that the outbound address is not on any blacklist.
maintenance | homeassistant | Purge the recorder database monthly to keep it small. | To prevent the recorder database from growing, it should be purged every month.
maintenance | proxmox | Old kernels have to be removed now and then or /boot fills up. | Remove old kernels from time to time, since /boot runs out of space otherwise.
maintenance | restic | Verify a random subset of the backup data each month. | A random part of the backed-up data should be checked monthly.
timing | plex | Plex needs about two minutes before streams start smoothly after a reboot. | After rebooting, allow Plex roughly 120 seconds until playback is smooth.
timing | elasticsearch | Shard recovery usually takes 10 to 15 minutes once a node is back. | It normally takes between ten and fifteen minutes to recover the shards after a node returns.
timing | letsencrypt | Rate limits for failed validations reset after one hour. | Wait sixty minutes for the failed-validation rate limit to be lifted.
timing | jenkins | The nightly build queue is busiest between 1 and 3 am. | Most nightly builds run from 01:00 to 03:00.
timing | adguard | Filter lists refresh once every 24 hours. | AdGuard updates its filter lists daily.
timing | nfs | Clients hang for up to 90 seconds when the server reboots. | A reboot of the NFS server freezes clients for as long as a minute and a half.
timing | postgres | Checkpoints occur every 15 minutes and cause a short spike in latency. | There is a brief latency spike every quarter of an hour because of checkpoints.
timing | homeassistant | The Zigbee network takes about ten minutes to heal after the coordinator restarts. | Give the Zigbee mesh ten minutes to settle following a coordinator restart.
timing | sonarr | RSS sync runs every 15 minutes. | New releases are picked up by an RSS sync four times an hour.
timing | kubernetes | A drained node takes around five minutes to become schedulable again. | It takes roughly 5 min before a node that was drained can accept pods again.
timing | backup | Uploading the weekly archive to the cloud takes most of Sunday morning, about five hours. | The weekly archive needs around 5 hours to upload to the cloud on Sunday mornings.
timing | grafana | Alert evaluations are delayed by 30 seconds by default. | By default there is a half-minute delay before alerts are evaluated.
timing | mariadb | The slow query log is rotated at midnight. | Rotation of the slow query log takes place at 00:00.
timing | minio | Bucket replication catches up within an hour of a network outage. | After the network has been down, replication of the buckets is back in sync in less than sixty minutes.
dependency | jellyfin | The media share must be mounted before Jellyfin launches, otherwise libraries appear empty. | Libraries show up empty if Jellyfin is started before the media share is mounted.
dependency | prometheus | Node exporter has to be reachable on port 9100 for host metrics. | Host metrics are missing unless port 9100 of the node exporter can be reached.
dependency | keycloak | Keycloak fails to boot when its Postgres database is unreachable. | A reachable Postgres database is required for Keycloak to boot.
dependency | nginx | The upstream container must be on the same Docker network as nginx. | nginx can only talk to upstream containers that share its Docker network.
dependency | authentik | The worker container is needed for sending emails. | Emails are sent by the worker container, so it has to be running.
dependency | sonarr | Downloads cannot be imported unless the download client uses the same path mapping. | For imports to work, the path mapping of the download client must match.
dependency | vault | Applications can only fetch secrets after Vault has been unsealed. | Vault has to be unsealed before apps are able to read any secrets.
dependency | mastodon | Sidekiq depends on Redis; without it no jobs are processed. | No Sidekiq jobs run when Redis is missing.
dependency | pihole | Unbound should be up before Pi-hole because it is the only upstream. | Pi-hole's sole upstream is Unbound, so start Unbound first.
dependency | gitlab | The registry refuses pushes when the object storage is offline. | Pushing to the registry requires the object storage to be online.
dependency | frigate | Hardware decoding needs access to /dev/dri. | Without access to /dev/dri, hardware decoding is not possible.
dependency | kafka | Schema Registry must come up before the connectors. | Connectors have to wait for Schema Registry to be up.
dependency | immich | The mobile app only syncs over HTTPS with a trusted certificate. | A trusted HTTPS certificate is necessary for the mobile app to sync.
dependency | zfs | The encryption key has to be loaded before datasets can be mounted. | Datasets can't be mounted until the encryption key is loaded.
behavior | nextcloud | File locking errors appear when Redis runs out of memory. | If Redis has no memory left, Nextcloud reports file locking errors.
behavior | traefik | A broken dynamic config file is ignored and the old one stays in effect. | Traefik keeps using the previous configuration when the dynamic file is invalid.
behavior | home-assistant | Automations do not fire for state changes that occur during startup. | State changes while it is starting up don't trigger any automations.
behavior | mosquitto | Messages with QoS 0 are lost while a client is offline. | Offline clients never get QoS 0 messages.
behavior | influxdb | Queries over long time ranges exhaust memory and get the process killed. | The process is OOM-killed by queries that span long periods.
behavior | docker | A container keeps its old DNS settings until it is recreated. | DNS changes only reach a container once it has been recreated.
behavior | gitea | Large pushes time out behind the reverse proxy. | Pushing big repositories through the reverse proxy runs into a timeout.
behavior | jenkins | Builds hang when an agent loses its network connection. | If the network link to an agent drops, builds get stuck.
behavior | postgres | Long-running transactions prevent vacuum from cleaning up dead rows. | Dead rows cannot be vacuumed as long as there is a long-running transaction.
behavior | synology | The NAS becomes sluggish while RAID scrubbing is active. | During a RAID scrub the NAS is slow to respond.
behavior | wireguard | The tunnel silently stops passing traffic when the peer's public IP changes. | If the peer gets a new public IP, no traffic goes through the tunnel any more and nothing is logged.
behavior | vaultwarden | Browser extensions log out after the server is upgraded. | Upgrading the server signs users out of their browser extensions.
behavior | radarr | Movies are re-downloaded when the quality cutoff is raised. | Raising the quality cutoff makes Radarr download movies again.
behavior | caddy | Certificates are reissued if the data volume is lost. | Losing the data volume forces Caddy to request all certificates anew.
behavior | kubernetes | Pods stay in Terminating when their node is unreachable. | If a node cannot be reached, its pods hang in the Terminating state.
remediation | plex | Deleting the Codecs folder fixes transcoding errors after an update. | Transcoding errors following an update go away once the Codecs folder is removed.
remediation | docker | Pruning build cache recovers tens of gigabytes when the disk is nearly full. | If disk space is almost used up, prune the build cache to regain tens of gigabytes.
remediation | nfs | A lazy unmount and remount clears stale file handles. | Stale file handles can be cleared by unmounting lazily and mounting again.
remediation | elasticsearch | Raising the heap to 4 GB stops the circuit breaker errors. | Circuit breaker errors no longer occur with a heap of 4 GB.
remediation | wireguard | Bring the interface down and up again if the handshake is older than three minutes. | When the last handshake is more than 3 minutes old, toggling the interface restores the tunnel.
remediation | mastodon | Restarting Sidekiq drains the backlog when the queue is stuck. | A stuck queue starts draining again after Sidekiq is restarted.
remediation | grafana | Reset the admin password with grafana-cli when the login is rejected. | If the admin login is refused, use grafana-cli to set a new password.
remediation | letsencrypt | Switch to DNS validation when port 80 is blocked by the provider. | DNS validation is the way out if the ISP blocks port 80.
remediation | zfs | Clearing the pool errors and scrubbing again brings a degraded pool back to healthy. | A degraded pool returns to healthy after its errors are cleared and another scrub is run.
remediation | homeassistant | Removing the .storage lock file lets it start after a power failure. | After a power outage, delete the .storage lock file so that it can start.
remediation | pihole | Switching the upstream to 9.9.9.9 is a workaround for resolver timeouts. | Resolver timeouts can be worked around by using 9.9.9.9 as upstream.
remediation | jenkins | Disconnecting and reconnecting the agent frees hung executors. | Hung executors are released when the agent is disconnected and connected again.
remediation | | Restarting the whole host does not help against packet loss, the switch has to be power cycled. | Packet loss is only solved by power cycling the switch; rebooting the host is of no use.
remediation | rabbitmq | Purging the dead letter queue lowers memory pressure immediately. | Memory pressure drops at once when the dead letter queue is purged.
maintenance | nextcloud | Run the database repair after each major upgrade. | Every major upgrade should be followed by a database repair.
maintenance | docker | Base images should be rebuilt at least once a month for security patches. | For security fixes, rebuild the base images monthly or more often.
maintenance | zfs | Snapshots older than 90 days have to be destroyed by hand. | Manually remove snapshots after three months, nothing expires them.
maintenance | jenkins | Old build logs pile up and need pruning every few weeks. | Every couple of weeks, prune the build logs that have accumulated.
maintenance | letsencrypt | The wildcard certificate must be renewed manually every 60 days. | Renew the wildcard certificate by hand at 60-day intervals.
maintenance | mariadb | Optimise the log tables quarterly to reclaim space. | Once per quarter the log tables should be optimised so that space is freed.
maintenance | gitlab | Take a full backup before every upgrade, rollbacks are not supported. | Since it can't be rolled back, always back up everything prior to upgrading.
maintenance | unifi | Firmware of the access points should be updated twice a year. | Update access point firmware every six months.
maintenance | synology | Replace the UPS battery every three years. | The battery of the UPS has to be swapped after 3 years.
maintenance | vault | Audit logs must be shipped and truncated weekly or the disk runs full. | Ship and truncate the audit logs each week, otherwise the disk fills up.
maintenance | prometheus | Review alert rules every six months. | Alerting rules are due for a review twice a year.
maintenance | mail | The spam filter has to be retrained after large mail imports. | Retrain the spam filter whenever a lot of mail has been imported.
maintenance | | All service passwords are rotated on the first of January. | On January 1st every service password is changed.
timing | jellyfin | A full library scan lasts around 40 minutes and starts at 3 o'clock in the morning. | At 03:00 a complete scan of the library kicks in and keeps going for some forty minutes.
timing | postgres | After an unclean shutdown, crash recovery can take as long as eight minutes. | Up to 8 minutes of crash recovery follow when Postgres was not shut down cleanly.
timing | caddy | Fresh certificates become active approximately 30 seconds after they are issued. | It takes about half a minute for a newly issued certificate to be used.
timing | wireguard | Handshakes are renewed every two minutes. | A new handshake happens at two-minute intervals.
timing | redis | The append-only file gets rewritten nightly around 4 am. | Every night at roughly four in the morning, Redis rewrites its AOF.
timing | traefik | Newly labelled containers are routed with a lag of ten seconds. | Routes for new containers show up ten seconds late.
timing | nextcloud | Sync clients poll for changes every 30 seconds. | Desktop clients look for changes twice a minute.
timing | gitea | Repository mirrors are refreshed three times a day. | Mirrors get pulled every eight hours.
timing | immich | Importing 1,000 photos keeps the CPU busy for roughly 25 minutes. | CPU load stays high for about 25 min when a thousand photos are imported.
timing | homeassistant | The recorder commits to disk every five seconds. | State history is written to disk once every 5 s.
timing | prometheus | Targets are marked as down after three missed scrapes, that is 45 seconds. | It takes 45 seconds, or three failed scrapes, for a target to be considered down.
timing | vaultwarden | Backups run on the hour and finish in under a minute. | Each hour a backup is made which completes within 60 seconds.
dependency | nextcloud | Preview generation requires the imagick extension. | Previews are not generated if imagick is not installed.
dependency | wireguard | The kernel module has to be loaded before the interface can be brought up. | The interface fails to come up if the kernel module isn't loaded.
dependency | grafana | Grafana expects its database volume to be writable. | If the database volume is read-only, Grafana does not work.
dependency | postgres | Replicas can only start streaming after the primary is accepting connections. | The primary has to accept connections before replicas begin to stream.
dependency | caddy | Automatic HTTPS requires that the domain resolves to this host. | For automatic HTTPS the domain name must point to this machine.
dependency | homeassistant | The ESPHome integration relies on mDNS working across VLANs. | ESPHome devices are only found if mDNS works between VLANs.
dependency | radarr | Radarr has to be able to write to the download directory. | Write access to the download folder is needed by Radarr.
dependency | mqtt | Sensors go unavailable as soon as the broker is stopped. | All sensors depend on the broker and become unavailable when it stops.
dependency | gitea | The backup job needs Gitea to be stopped first. | Stop Gitea before running the backup job.
dependency | jellyfin | Remote streaming depends on the reverse proxy being up. | If the reverse proxy is down, remote streaming does not work.
dependency | redis | The queue workers must be stopped before Redis is upgraded. | Upgrade Redis only after stopping the queue workers.
dependency | pihole | Conditional forwarding needs the router's IP to be static. | The router must have a static IP, or conditional forwarding breaks.
behavior | caddy | Config reloads are rejected as a whole if a single directive is invalid. | One invalid directive makes Caddy refuse the entire config reload.
behavior | jellyfin | Watch progress is lost when the container is killed during playback. | Killing the container while something plays loses the watch progress.
behavior | redis | Keys without a TTL are never evicted under the volatile-lru policy. | Under volatile-lru, only keys with a TTL can be evicted.
behavior | vaultwarden | The web vault shows a blank page over plain HTTP. | Over unencrypted HTTP the web vault stays blank.
behavior | traefik | Sticky sessions break whenever a backend is scaled. | Scaling a backend causes sticky sessions to be lost.
behavior | immich | Uploads of live photos fail when the phone goes to sleep. | If the phone falls asleep, live photo uploads are aborted.
behavior | nginx | Long requests are cut off after 60 seconds with a 504. | Requests longer than a minute are terminated with 504.
behavior | mariadb | Replication stops when a table has no primary key. | Tables without a primary key break replication.
behavior | sonarr | Episodes with special characters in their names are not imported. | Sonarr fails to import episodes if the title contains special characters.
behavior | docker | The daemon ignores changes to daemon.json until it is restarted. | Changes in daemon.json take effect only after a daemon restart.
behavior | homeassistant | History is missing for entities that were excluded from the recorder. | Entities which are excluded from the recorder have no history.
behavior | plex | Direct play falls back to transcoding if the client is on a slow network. | On slow networks clients get a transcoded stream rather than direct play.
behavior | grafana | Dashboards with more than 50 panels load noticeably slowly. | Loading takes noticeably long for dashboards that have over fifty panels.
behavior | unifi | Guests are disconnected every time the controller restarts. | Each controller restart kicks guests off the network.
remediation | caddy | Removing the autosave file resolves a boot loop after a bad config. | If a bad config causes a boot loop, delete the autosave file.
remediation | nextcloud | Turning off the antivirus app makes uploads fast again. | Uploads regain their speed once the antivirus app has been disabled.
remediation | postgres | Dropping the stale replication slot frees up the WAL disk space. | WAL space is reclaimed after removing the stale replication slot.
remediation | traefik | Touching the dynamic file forces routes to be reloaded. | To make it reload the routes, touch the dynamic file.
remediation | redis | Disabling transparent huge pages gets rid of latency spikes. | Latency spikes disappear when transparent huge pages are turned off.
remediation | homeassistant | Reloading the integration reconnects lost devices without a restart. | Lost devices reconnect by reloading the integration, no restart needed.
remediation | sonarr | Testing and saving the indexer again clears its failure status. | The failed status of an indexer is cleared by testing and saving it once more.
remediation | immich | If search returns nothing, re-run the smart search job for all assets. | Running the smart search job for all assets again fixes empty search results.
remediation | gitea | Run the sync hooks command after restoring a backup. | After a restore from backup the hooks must be synced with the command.
remediation | plex | Signing out and in again claims the server when it shows as unclaimed. | An unclaimed server can be claimed by logging out and back in.
remediation | mariadb | Increase max_allowed_packet when imports abort with a lost connection. | Imports that die with a lost connection are cured by a higher max_allowed_packet.
remediation | wireguard | Lowering the MTU to 1380 fixes hanging downloads. | Downloads that hang work again with an MTU of 1380.
maintenance | postgres | Autovacuum cannot keep up, so vacuum the audit table manually each night. | The audit table needs a nightly manual vacuum because autovacuum falls behind.
maintenance | caddy | Access logs must be deleted by hand every two months. | Someone has to clear out the access logs once every two months.
maintenance | immich | Back up the database before updating, as migrations can't be undone. | Always make a database backup prior to an update, migrations are irreversible.
maintenance | homeassistant | Replace the coin cells of motion sensors every 18 months. | Motion sensors need a new coin cell every year and a half.
maintenance | traefik | Review unused middlewares quarterly. | Every three months, check for middlewares that are no longer used.
maintenance | redis | Check memory fragmentation monthly. | Once a month, have a look at the memory fragmentation.
maintenance | nextcloud | The file versions have to be cleaned up weekly because they fill the disk. | Clean up file versions every week, they eat up disk space.
maintenance | docker | Dangling volumes need to be removed manually from time to time. | Every now and then, delete dangling volumes by hand.
maintenance | gitea | Rotate the runner registration token every half year. | The token for registering runners should be replaced twice a year.
maintenance | plex | Optimise the database once a month to keep it responsive. | A monthly database optimisation keeps Plex responsive.
timing | forgejo | Action runners pick up queued jobs within five seconds. | Queued jobs wait at most 5 s before an action runner takes them.
timing | nextcloud | The web cron finishes in less than a minute on most nights. | On most nights, cron is done in under 60 seconds.
timing | sonarr | Season packs need up to half an hour for import. | Importing a season pack may take as much as 30 minutes.
timing | mongodb | An election leaves the replica set without a primary for about 12 seconds. | During an election there is no primary for around twelve seconds.
timing | loki | Queries spanning more than a week time out after two minutes. | A two minute timeout hits queries that cover over 7 days.
timing | unifi | Adopting a new access point takes around four minutes. | It takes some four minutes to adopt a new AP.
timing | haproxy | Health checks mark a dead backend as down after 6 seconds. | A backend that died is taken out of rotation after six seconds.
timing | cron | The log cleanup job starts at 2:15 am each day. | Every day at 02:15 the job that cleans up the logs is started.
timing | keycloak | Tokens are valid for five minutes. | Access tokens expire 5 minutes after they are issued.
dependency | mongodb | The arbiter must be able to reach both data nodes. | Both data nodes have to be reachable from the arbiter.
dependency | loki | Promtail cannot ship logs unless Loki's port 3100 is reachable. | Port 3100 of Loki must be reachable for Promtail to ship logs.
dependency | forgejo | Sign-in through OIDC only works while Keycloak is running. | When Keycloak is down nobody can sign in via OIDC.
dependency | haproxy | HAProxy needs the certificates mounted at /etc/ssl/private. | If no certificates are mounted at /etc/ssl/private, HAProxy does not start.
dependency | cron | The report job must run after the import job has finished. | Run the report job only when the import job is complete.
dependency | seafile | Seafile requires memcached for the web interface. | The web interface of Seafile does not work without memcached.
dependency | ghost | Ghost will not boot until MySQL accepts connections. | MySQL must be accepting connections before Ghost can boot.
dependency | nodered | Flows using MQTT depend on Mosquitto being available. | If Mosquitto is unavailable, flows that use MQTT stop working.
behavior | mongodb | Writes block while an index is built in the foreground. | Building an index in the foreground blocks all writes.
behavior | loki | Streams with too many labels slow down queries. | Queries become slow if streams have too many labels.
behavior | haproxy | Connections are dropped during a reload when nbproc is above one. | If nbproc is greater than 1, reloading drops connections.
behavior | seafile | The desktop client stops syncing files with a trailing dot in the name. | Files whose names end in a dot are not synced by the desktop client.
behavior | forgejo | Repositories become read-only when the quota is exceeded. | Exceeding the quota makes repositories read-only.
behavior | ghost | Newsletters go out twice if the worker restarts halfway through. | When the worker is restarted in the middle of sending, newsletters are delivered two times.
behavior | nodered | Deploying flows resets all context variables. | All context variables are lost on each deploy.
behavior | keycloak | The admin console becomes slow with more than 10,000 users. | With over 10,000 users the admin console gets sluggish.
behavior | nextcloud | Deleted files still count against the quota until the trash is emptied. | Until the trash has been emptied, deleted files continue to use up quota.
behavior | sonarr | The calendar shows wrong times after a timezone change. | After changing the timezone, times in the calendar are off.
behavior | unifi | Wireless clients roam poorly when minimum RSSI is disabled. | Roaming of wireless clients is bad if minimum RSSI is turned off.
remediation | mongodb | Stepping down the primary resolves stuck oplog readers. | Stuck oplog readers are fixed by a step down of the primary.
remediation | loki | Reducing the chunk size stops out-of-memory crashes of the ingester. | The ingester no longer crashes for lack of memory once the chunk size is reduced.
remediation | haproxy | Reload instead of restarting so that sessions are not cut. | Use a reload rather than a restart, it keeps sessions alive.
remediation | seafile | Running seaf-fsck repairs libraries that refuse to open. | Libraries which cannot be opened are repaired with seaf-fsck.
remediation | forgejo | Regenerating the hooks fixes pushes that hang. | If pushes hang, regenerate the hooks.
remediation | ghost | Clearing the CDN cache shows the updated posts. | Updated posts appear after the CDN cache has been purged.
remediation | nodered | Start in safe mode when a flow crashes the runtime. | If the runtime crashes because of a flow, safe mode lets you start it.
remediation | keycloak | Restart the pod to clear the stale user cache. | A stale user cache is cleared by restarting the pod.
maintenance | mongodb | Compact the collections every three months. | Collections should be compacted quarterly.
maintenance | loki | Delete old chunks manually, there's no automatic retention. | Old chunks have to be removed by hand as retention is not automated.
maintenance | haproxy | Renew the client certificates each January. | Client certificates are due for renewal every January.
maintenance | seafile | Run garbage collection monthly with the server stopped. | Once a month, stop the server and run the garbage collection.
maintenance | forgejo | Check the mirrors for errors weekly. | Mirrors should be checked for errors once a week.
maintenance | ghost | Themes must be tested after every major update. | After each major update, test the themes.
maintenance | nodered | Export the flows before updating. | Always export flows prior to an update.
maintenance | cron | Old report files are to be archived at the end of every month. | At each month's end, archive the old report files.
timing | postfix | Greylisting delays mail from unknown senders by five minutes. | Mail from senders that are not known yet arrives five minutes late because of greylisting.
timing | ceph | Rebalancing after adding an OSD takes most of a day. | When an OSD has been added, it takes nearly a day until the cluster is balanced again.
timing | bind | Zone changes reach the secondaries within 15 minutes. | Secondary servers pick up zone changes after at most a quarter of an hour.
timing | k3s | The first image pull on a fresh node takes three to four minutes. | On a new node, pulling images for the first time needs 3-4 minutes.
timing | squid | Shutting down takes 30 seconds as clients are drained. | Because it drains its clients, a shutdown needs half a minute.
timing | samba | Renamed shares appear on Windows clients after about ten minutes. | Windows clients see renamed shares some ten minutes later.
timing | zabbix | Housekeeping runs hourly and slows the frontend for two minutes. | The frontend is slow for two minutes every hour while housekeeping runs.
timing | dovecot | Full text indexing of a mailbox finishes overnight. | Indexing a mailbox for full text search takes until the next morning.
dependency | postfix | Postfix hands mail to Dovecot over LMTP, so Dovecot has to be up. | Dovecot must be running because Postfix delivers to it via LMTP.
dependency | ceph | Monitors need synchronised clocks to keep quorum. | Without synchronised clocks the monitors lose their quorum.
dependency | bind | DNSSEC validation breaks if the system clock is wrong. | The system clock has to be correct for DNSSEC validation to work.
dependency | k3s | Agents join only if port 6443 on the server is open. | Port 6443 of the server must be open before agents can join.
dependency | samba | Domain logins require the LDAP server. | Nobody can log in to the domain without the LDAP server.
dependency | zabbix | The proxy must be upgraded after the server. | Upgrade the Zabbix server first and the proxy afterwards.
dependency | dovecot | Mailboxes live on NFS, therefore the mount has to exist before Dovecot starts. | Dovecot must not be started before the NFS mount with the mailboxes is there.
dependency | openvpn | Clients need the CA certificate to be installed. | Clients without the CA certificate cannot connect.
behavior | postfix | Mails above 25 MB bounce. | Messages larger than 25 MB are returned to the sender.
behavior | ceph | Writes stall when a placement group is inactive. | Inactive placement groups block writes.
behavior | bind | A syntax error in one zone file keeps only that zone from loading. | If a zone file has a syntax error, just this zone isn't loaded.
behavior | k3s | Local volumes are not moved when a pod is rescheduled. | When a pod moves to another node, its local volume stays behind.
behavior | squid | The cache is lost on every restart because it is kept in memory. | Since the cache lives in RAM, restarting Squid empties it.
behavior | samba | Files with a colon in the name are hidden from Windows clients. | Windows clients can't see files whose names contain a colon.
behavior | zabbix | Triggers flap while the database is overloaded. | An overloaded database makes triggers flap.
behavior | dovecot | IMAP sessions are cut when the certificate is replaced. | Replacing the certificate terminates IMAP sessions.
behavior | openvpn | Clients keep the old route until they reconnect. | A new route only takes effect after clients have reconnected.
remediation | postfix | Flushing the queue delivers deferred mail at once. | Deferred mail goes out immediately when the queue is flushed.
remediation | ceph | Reweighting the fullest OSD relieves the near-full warning. | The near-full warning goes away after the fullest OSD is reweighted.
remediation | bind | Clearing the journal files fixes zones that refuse to load. | Zones that cannot be loaded are repaired by deleting the journal files.
remediation | k3s | Deleting the node password secret lets a reinstalled node join again. | A reinstalled node can rejoin after its node password secret is removed.
remediation | squid | Rebuilding the swap state resolves startup crashes. | Startup crashes are cured by rebuilding the swap state.
remediation | samba | Restarting winbind restores missing groups. | Missing groups come back after a restart of winbind.
remediation | zabbix | Raising CacheSize stops the out of memory crashes. | With a larger CacheSize it no longer crashes from lack of memory.
remediation | openvpn | Reducing the MTU gets rid of stalls on mobile networks. | On mobile networks a smaller MTU prevents connections from stalling.
maintenance | postfix | Old mails in the dead letter folder must be cleared each week. | Empty the dead letter folder weekly.
maintenance | ceph | Check the SMART values of all disks every month. | Every disk's SMART values should be checked monthly.
maintenance | bind | The DNSSEC keys are rolled by hand once a year. | Roll the DNSSEC keys manually every twelve months.
maintenance | k3s | Rotate the cluster certificates annually. | Cluster certificates need to be rotated once a year.
maintenance | zabbix | History tables must be partitioned manually before each quarter. | Before every quarter, partition the history tables by hand.
maintenance | openvpn | Revoke certificates of former employees right away. | When somebody leaves, their certificate has to be revoked immediately.
maintenance | dovecot | Purge expunged messages with doveadm weekly. | Run doveadm purge once a week to get rid of expunged messages.
"""

_CONTRADICTING: Final = """
timing | jellyfin | Takes 60s to start after restart | Takes 30s to start after restart
timing | gitea | Gitea needs two minutes to come up after an upgrade | After an upgrade Gitea comes up within ten seconds
timing | nextcloud | The cron job runs every 5 minutes | The cron job runs every 15 minutes
timing | postgres | The nightly backup begins at 02:00 | The nightly backup begins at 04:00
timing | redis | Loading the dump at startup takes 45 seconds | Redis loads its dump at startup in under 5 seconds
timing | sonarr | Searches time out after 100 seconds | Searches time out after 30 seconds
timing | plex | The library scan runs on Sundays | The library scan runs on Wednesdays
timing | loki | Logs appear immediately | Logs appear with a delay of 15 seconds
timing | prometheus | Is ready right after the start | Is not ready until five minutes after the start
timing | backup | The full backup takes 4 hours | The full backup takes 40 minutes
timing | grafana | Starts slowly after an update | Starts fast after an update
timing | mqtt | Clients reconnect within 10 seconds of a restart | Clients never reconnect by themselves after a restart
timing | traefik | Certificates are renewed 30 days before expiry | Certificates are renewed 7 days before expiry
dependency | caddy | Must be started after WireGuard | Can be started independently of WireGuard
dependency | caddy | Must be started after WireGuard | Must be started before WireGuard
dependency | gitea | Requires PostgreSQL to be running first | Gitea starts fine without PostgreSQL
dependency | sonarr | Needs the NFS share mounted before it starts | Sonarr does not need the NFS share to start
dependency | grafana | Depends on Prometheus at startup | Does not depend on Prometheus at startup
dependency | nextcloud | Redis is mandatory for file locking | Redis is optional for file locking
dependency | immich | Start the machine learning container before the server | Start the server before the machine learning container
dependency | vaultwarden | Needs a TLS certificate for logins | Logins work without a TLS certificate
dependency | loki | Requires at least 2 GB of free disk | Requires at least 10 GB of free disk
dependency | keycloak | Must wait for the database migration | Need not wait for the database migration
dependency | pihole | Upstream resolver has to be up first | The order of Pi-hole and the upstream resolver does not matter
dependency | homeassistant | Cannot run without the MQTT broker | Runs fine without the MQTT broker
dependency | authelia | Exits when LDAP is unreachable at startup | Keeps running when LDAP is unreachable at startup
dependency | mail | The relay must be reachable before the queue is started | The queue can be started although the relay is unreachable
behavior | postgres | A config reload drops all connections | A config reload keeps all connections open
behavior | jellyfin | The first restart fails and the second succeeds | The first restart always succeeds
behavior | jellyfin | Memory is released after transcoding | Memory is never released after transcoding
behavior | nginx | Returns 502 while the upstream restarts | Returns 503 while the upstream restarts
behavior | redis | Refuses writes when the disk is full | Accepts writes even when the disk is full
behavior | gitea | Webhooks are dropped if the queue is full | Webhooks are retained if the queue is full
behavior | prometheus | Loses samples on an unclean shutdown | No samples are lost on an unclean shutdown
behavior | sonarr | The health check reports OK when the database is locked | The health check fails when the database is locked
behavior | unifi | Users are logged out after an upgrade | Users stay logged in after an upgrade
behavior | docker | Containers lose network access after a firewall reload | Containers keep their network access after a firewall reload
behavior | nextcloud | Uploads larger than 2 GB fail | Uploads larger than 2 GB work
behavior | nextcloud | Uploads larger than 2 GB fail | Uploads larger than 16 GB fail
behavior | immich | Duplicates are detected automatically | Duplicates have to be detected manually
behavior | kafka | A rebalance always stops all consumers | A rebalance never stops the consumers
behavior | plex | High CPU during scans is normal | High CPU during scans is abnormal
behavior | minio | Healing saturates the network | Healing barely affects the network
behavior | traefik | Config changes are picked up automatically | Config changes are only picked up after a restart
behavior | caddy | Reloads are graceful and drop nothing | Reloads drop open connections
behavior | zigbee | Devices rejoin by themselves after a power cut | Devices have to be re-paired by hand after a power cut
remediation | jellyfin | Deleting the transcode cache frees the disk | Deleting the transcode cache does not free the disk
remediation | postgres | Restarting pgbouncer clears exhausted connections | Restarting pgbouncer does not help with exhausted connections
remediation | redis | A restart fixes the corrupted dump | A restart makes the corrupted dump worse
remediation | gitea | Running doctor check --fix repairs broken hooks | doctor check --fix has no effect on broken hooks
remediation | sonarr | Restart once to get rid of the database lock | It takes three restarts to get rid of the database lock
remediation | nginx | Reloading is enough after changing the config | Reloading is not enough after config changes, a full restart is needed
remediation | docker | Pruning images resolves disk pressure | Pruning images is useless against disk pressure
remediation | homeassistant | Replugging the stick is safe | Replugging the stick is dangerous
remediation | prometheus | Deleting the WAL fixes the crash loop | Deleting the WAL fails to fix the crash loop
remediation | unifi | Increase the heap when the controller is slow | Decrease the heap when the controller is slow
remediation | caddy | Enable HTTP/3 to fix stalled downloads | Disable HTTP/3 to fix stalled downloads
remediation | | Retry failed DNS checks once | Never retry failed DNS checks
maintenance | postgres | Run VACUUM FULL weekly | Run VACUUM FULL monthly
maintenance | postgres | Needs manual VACUUM FULL every week | Autovacuum is sufficient, no manual VACUUM FULL is needed
maintenance | docker | Unused images must be pruned by hand | Unused images are pruned automatically
maintenance | caddy | The internal CA has to be renewed every year | The internal CA has to be renewed every two years
maintenance | gitea | Action logs are purged automatically | Action logs are not purged automatically
maintenance | zfs | Scrub the pool every two weeks | Scrub the pool once a month
maintenance | backup | Restore tests are required every quarter | Restore tests are unnecessary
maintenance | mail | DKIM keys are rotated twice a year | DKIM keys are rotated once a year
maintenance | nextcloud | Indices must be added before every upgrade | Indices must be added after every upgrade
maintenance | loki | Retention is trimmed manually | Retention is trimmed automatically by the compactor
timing | vault | Vault stays sealed for about 20 seconds after the pod comes up. | After the pod comes up, Vault takes five minutes to unseal.
timing | frigate | Recordings show up in the UI immediately. | Recordings need ten minutes to show up in the UI.
timing | elasticsearch | A cold cluster needs five minutes to go green. | The cluster is green within 20 seconds of a cold start.
timing | rabbitmq | Queues resync in about a minute after a node rejoins. | Resyncing queues after a node rejoins takes an hour.
timing | syncthing | A full rescan happens every hour. | Folders are fully rescanned once a day.
timing | proxmox | Backups run from 22:00 until midnight. | Backups start at 3 am.
timing | k8s | Pods get 90 seconds to shut down. | Pods are killed 30 seconds after the shutdown signal.
timing | ceph | Scrubs are only allowed at night. | Scrubs only happen during the day.
timing | unbound | Negative answers are cached for 5 minutes. | Negative answers are cached for an hour.
timing | gitlab | The runner polls every 3 seconds. | The runner polls for jobs every 30 seconds.
timing | zigbee | Battery devices report every 55 minutes. | Battery-powered devices report in every 5 minutes.
timing | matrix | Federation catches up within minutes of an outage. | Catching up with federation takes many hours after an outage.
dependency | vault | Vault must be unsealed after Consul is up. | Vault does not depend on Consul at all.
dependency | frigate | Frigate will not start without the Coral TPU. | Frigate falls back to the CPU and starts fine without a Coral TPU.
dependency | matrix | Start Postgres before Synapse. | Synapse has to be started before Postgres.
dependency | paperless | Redis is required for document consumption. | Document consumption works without Redis.
dependency | k8s | Operators can only be installed once CoreDNS is ready. | Operators can be installed before CoreDNS is ready.
dependency | influxdb | Telegraf must be started after InfluxDB. | It does not matter whether Telegraf or InfluxDB starts first.
dependency | cloudflared | Needs port 7844 open in the firewall. | No firewall ports need to be opened.
dependency | rabbitmq | All nodes need the same Erlang cookie. | Nodes may use different Erlang cookies.
dependency | nextcloud | Collabora must reach Nextcloud over HTTPS. | Plain HTTP is fine between Collabora and Nextcloud, HTTPS is not needed.
dependency | prometheus | Alerts are not delivered while Alertmanager is down. | Alerts are still delivered while Alertmanager is down.
dependency | homeassistant | The Zigbee bridge must be online before Home Assistant starts. | Home Assistant can be started while the Zigbee bridge is offline.
dependency | minecraft | The proxy has to come up after the backend servers. | The proxy must be up before the backend servers.
behavior | vault | Vault seals itself when the container is recreated. | Vault stays unsealed when the container is recreated.
behavior | rabbitmq | Publishers get blocked above the memory watermark. | Publishers are never blocked, even above the memory watermark.
behavior | elasticsearch | Indices become read-only at 95% disk usage. | Indices become read-only at 85% disk usage.
behavior | elasticsearch | Indices stay writable when the disk is full. | Indices become read-only when the disk is full.
behavior | k8s | Evicted pods are cleaned up automatically. | Evicted pods linger until they are deleted by hand.
behavior | paperless | Duplicates are rejected. | Duplicate documents are accepted and stored twice.
behavior | syncthing | File permissions are preserved. | File permissions are lost when syncing.
behavior | matrix | Media larger than 50 MB is refused. | Media up to 200 MB is accepted.
behavior | gitlab | CI jobs stay pending if no runner has the tag. | CI jobs fail immediately if no runner has the tag.
behavior | etcd | The database shrinks by itself after compaction. | The database does not shrink after compaction.
behavior | minecraft | /reload reloads all plugins correctly. | /reload breaks plugins.
behavior | grafana | Provisioned dashboards cannot be saved from the UI. | Provisioned dashboards can be edited and saved in the UI.
behavior | nginx | Picks up new certificates automatically. | Keeps the old certificate until it is reloaded.
behavior | cloudflared | Reconnect warnings in the log are harmless. | Reconnect warnings in the log indicate a real problem.
behavior | ceph | Deep scrubs slow clients down noticeably. | Clients do not notice deep scrubs.
behavior | immich | Album order survives a migration. | Album order is lost in a migration.
remediation | vault | Restarting Consul fixes a hanging unseal. | Restarting Consul makes no difference to a hanging unseal.
remediation | frigate | Replugging the Coral stick brings detection back. | Replugging the Coral does not bring detection back; only a host reboot does.
remediation | elasticsearch | The read-only block clears itself once space is free. | The read-only block has to be removed manually even when space is free.
remediation | rabbitmq | Restarting the owning node fixes stuck queues. | Never restart the owning node when queues are stuck.
remediation | k8s | Deleting the pod clears ImagePullBackOff. | ImagePullBackOff persists after the pod is deleted.
remediation | matrix | Vacuuming shrinks the database. | Vacuuming has no effect on the database size.
remediation | gitlab | Restart Puma when pages return 502. | Do not restart Puma when pages return 502.
remediation | proxmox | Restarting pvestatd is harmless. | Restarting pvestatd is risky.
remediation | syncthing | Resetting the database helps with stuck folders. | A database reset only makes stuck folders worse.
remediation | unbound | Flushing the cache fixes stale records. | Flushing the cache is not enough for stale records, a restart is needed.
remediation | jellyfin | Turn hardware acceleration off when playback stutters. | Turn on hardware acceleration if playback stutters.
remediation | | Two retries are enough for failed uploads. | Failed uploads need at least ten retries.
maintenance | vault | Rotate the root token every 90 days. | Rotate the root token every 30 days.
maintenance | elasticsearch | Old indices are deleted automatically by a lifecycle policy. | Old indices must be deleted by hand.
maintenance | etcd | Defragment weekly. | Defragmentation is needed daily.
maintenance | matrix | Remote media is purged after 30 days. | Remote media is kept for a year.
maintenance | k8s | Control plane certificates must be renewed by hand every year. | Control plane certificates renew themselves.
maintenance | proxmox | Kernel updates need a reboot. | Kernel updates do not require a reboot.
maintenance | minecraft | Needs a daily restart because of a memory leak. | Can run for months without a restart.
maintenance | zigbee | Sensor batteries last two years. | Sensor batteries have to be changed every three months.
maintenance | frigate | Recordings are purged automatically after 14 days. | Recordings are never purged, delete them manually.
maintenance | gitlab | The registry garbage collection can run while GitLab is online. | GitLab has to be offline for registry garbage collection.
maintenance | postgres | REINDEX the events table every month. | The events table never needs a REINDEX.
maintenance | unbound | Root hints are updated twice a year. | Root hints are updated once a month.
timing | mosquitto | Retained messages arrive immediately after subscribing. | Retained messages arrive 15 seconds after subscribing.
timing | nextcloud | Preview generation runs every night at 3:30. | Preview generation runs at noon.
timing | wireguard | Sessions of NATed peers end after two minutes of silence. | NATed peers keep their session for half an hour of silence.
timing | authelia | Sessions expire after an hour of inactivity. | Idle sessions never expire.
timing | prowlarr | Indexers are checked every six hours. | Indexers are rechecked every 15 minutes.
timing | argocd | A sync takes three minutes. | Syncing is done in 20 seconds.
timing | mariadb | The backup finishes before 4 am. | The backup is still running at 6 am.
dependency | plex | Remote access requires port 32400 to be forwarded. | Remote access works without any port forwarding.
dependency | mariadb | Galera needs three nodes for quorum. | Galera keeps quorum with two nodes.
dependency | argocd | The repo server has to be healthy before applications can sync. | Applications sync even if the repo server is down.
dependency | kafka | Start ZooKeeper before the brokers. | Brokers must be started before ZooKeeper.
dependency | bookstack | Password resets need the mail relay. | Password resets do not need the mail relay.
dependency | loki | Loki cannot run without MinIO. | MinIO is optional for Loki, it can use the local disk.
dependency | zigbee2mqtt | Must have exclusive access to the serial port. | Can share the serial port with other processes.
behavior | mosquitto | Queued messages survive a restart. | Queued messages are lost on restart.
behavior | plex | Subtitles stay in sync during transcoding. | Subtitles get out of sync during transcoding.
behavior | mariadb | The replica is read-only after a failover. | The replica accepts writes after a failover.
behavior | argocd | Manual changes are reverted automatically. | Manual changes are left untouched.
behavior | pihole | Continues to answer queries when the disk is full. | Stops answering queries when the disk is full.
behavior | synology | Indexing has no noticeable impact on the CPU. | Indexing hogs the CPU.
behavior | authelia | Logins fail if the clock is off by 30 seconds. | Clock skew does not affect logins.
behavior | kafka | Messages are delivered in order. | Messages may be delivered out of order.
remediation | mosquitto | Deleting the persistence file fixes boot failures. | Deleting the persistence file does not fix boot failures.
remediation | plex | Optimising the database speeds up searches. | Optimising the database has no effect on searches.
remediation | argocd | A soft refresh is sufficient for stale manifests. | A soft refresh is not sufficient for stale manifests, use a hard one.
remediation | kafka | Raise the session timeout against rebalances. | Lower the session timeout against rebalances.
remediation | unifi | It is safe to force a re-provision during the day. | Never force a re-provision during the day.
remediation | pihole | Restarting FTL clears the timeouts. | The timeouts continue after FTL is restarted.
maintenance | mosquitto | The log has to be rotated by hand. | Log rotation happens by itself.
maintenance | plex | Empty the trash after every big deletion. | The trash empties itself.
maintenance | mariadb | Purge binary logs weekly. | Binary logs should be purged every two days.
maintenance | synology | Run SMART tests quarterly. | SMART tests should be run each month.
maintenance | argocd | Deploy keys never expire. | Deploy keys expire and must be rotated twice a year.
maintenance | authelia | A backup before upgrades is essential. | Upgrades do not need a backup.
timing | homeassistant | Automations resume within seconds of a core update. | Automations stay silent for four minutes after a core update.
timing | gitlab | The cleanup run happens on Sundays. | Cleanup is scheduled for Wednesday nights.
timing | restic | Pruning locks the repository for nearly two hours. | Pruning finishes in under ten minutes.
timing | postgres | Failover takes about 45 seconds. | Failing over to the standby takes several minutes.
timing | kafka | Lag is highest in the morning. | Consumer lag peaks in the evening.
dependency | nextcloud | The data directory must be mounted before the server starts. | The server starts fine even when the data directory is not mounted.
dependency | grafana | Users cannot log in while LDAP is down. | Local login keeps working while LDAP is down.
dependency | traefik | The socket proxy has to be up before Traefik. | Traefik can be brought up before the socket proxy.
dependency | frigate | Frigate needs an MQTT broker. | Frigate runs without any MQTT broker.
dependency | mailserver | Mail is deferred when rspamd is unavailable. | Mail is delivered unfiltered when rspamd is unavailable.
behavior | jellyfin | The web client freezes on large libraries. | Large libraries open smoothly in the web client.
behavior | redis | Memory doubles while a snapshot is written. | Memory usage stays flat during snapshots.
behavior | pihole | Statistics survive recreating the container. | Statistics are reset when the container is recreated.
behavior | unifi | Cameras stay connected during a controller upgrade. | Cameras go offline during a controller upgrade.
behavior | docker | Logs are rotated by default. | Logs grow without limit by default.
behavior | nginx | Uploads above 100 MB are rejected. | Uploads of up to 1 GB are accepted.
behavior | sonarr | Failed imports raise a visible error. | Imports fail silently.
remediation | grafana | Clearing the browser cache fixes blank panels. | Blank panels remain after clearing the browser cache.
remediation | kafka | A rolling restart cures under-replicated partitions. | A rolling restart does nothing for under-replicated partitions.
remediation | pihole | Rebuilding gravity is safe at any time. | Rebuilding gravity during the day breaks name resolution.
remediation | docker | Restarting the daemon restores DNS in containers. | DNS in containers stays broken after the daemon is restarted.
remediation | postgres | Killing idle transactions is the right fix for blocked autovacuum. | Do not kill idle transactions to unblock autovacuum.
maintenance | gitea | Garbage collect LFS every quarter. | LFS never needs garbage collection.
maintenance | traefik | The wildcard certificate is renewed automatically. | The wildcard certificate has to be renewed by hand.
maintenance | mailserver | Check the blacklists weekly. | Checking the blacklists once a month is enough.
maintenance | homeassistant | The recorder purges itself. | The recorder database must be purged manually.
timing | plex | Streams start smoothly two minutes after a reboot. | Streams take ten minutes to become smooth after a reboot.
timing | adguard | Filter lists refresh daily. | Filter lists are only refreshed weekly.
timing | nfs | Clients hang for 90 seconds when the server reboots. | Clients recover instantly when the server reboots.
timing | minio | Replication catches up within an hour. | Replication needs a whole day to catch up.
timing | grafana | Alerts are evaluated every 30 seconds. | Alert rules are evaluated once per minute.
dependency | keycloak | Keycloak does not boot without its database. | Keycloak boots fine while its database is unreachable.
dependency | vault | Secrets can be fetched while Vault is sealed. | Vault has to be unsealed before secrets can be fetched.
dependency | pihole | Start Unbound before Pi-hole. | Pi-hole must be running before Unbound is started.
dependency | authentik | The worker is needed for sending emails. | Emails are sent without the worker container.
dependency | gitlab | Pushes are refused when object storage is offline. | Pushes still succeed when object storage is offline.
behavior | traefik | An invalid dynamic config takes all routes down. | An invalid dynamic config is ignored and routes stay up.
behavior | docker | Running containers pick up new DNS settings. | Running containers keep their old DNS settings.
behavior | vaultwarden | Sessions survive a server upgrade. | Everybody is signed out by a server upgrade.
behavior | synology | RAID scrubbing is not noticeable. | RAID scrubbing makes the NAS very slow.
behavior | kubernetes | Pods on an unreachable node are rescheduled automatically. | Pods on an unreachable node must be deleted manually.
behavior | caddy | Certificates are kept when the container is recreated. | Certificates are lost when the container is recreated.
remediation | nfs | A lazy unmount clears stale file handles. | A lazy unmount does not clear stale file handles.
remediation | plex | Deleting the Codecs folder fixes transcoding. | Deleting the Codecs folder breaks transcoding.
remediation | wireguard | Toggling the interface restores the tunnel. | Toggling the interface never restores the tunnel, only a reboot does.
remediation | rabbitmq | Purging the dead letter queue is safe. | Do not purge the dead letter queue, messages are needed for replay.
remediation | zfs | A second scrub brings the pool back to healthy. | A second scrub leaves the pool degraded.
maintenance | zfs | Snapshots expire automatically after 90 days. | Snapshots have to be destroyed by hand.
maintenance | synology | The UPS battery lasts five years. | Replace the UPS battery every three years.
maintenance | unifi | Update the firmware twice a year. | Firmware updates are due every month.
maintenance | jenkins | Build logs are pruned automatically. | Build logs need manual pruning.
maintenance | gitlab | A backup before upgrades is mandatory. | Backups before upgrades are optional.
timing | jellyfin | A full scan takes 40 minutes. | Scanning the whole library takes about three hours.
timing | postgres | Crash recovery takes up to eight minutes. | Crash recovery is done within 30 seconds.
timing | wireguard | Handshakes are renewed every two minutes. | Handshakes are only renewed every 25 minutes.
timing | gitea | Mirrors are refreshed three times a day. | Mirrors are refreshed once a week.
timing | vaultwarden | Backups run hourly. | Backups run only at midnight.
timing | traefik | New containers are routed at once. | New containers are routed with a delay of ten seconds.
dependency | nextcloud | Previews require the imagick extension. | Previews work without the imagick extension.
dependency | grafana | The database volume must be writable. | The database volume can be mounted read-only.
dependency | gitea | Gitea has to be stopped for the backup job. | The backup job can run while Gitea is running.
dependency | redis | Stop the queue workers before upgrading Redis. | There is no need to stop the queue workers before upgrading Redis.
dependency | jellyfin | Remote streaming does not work when the reverse proxy is down. | Remote streaming works even when the reverse proxy is down.
behavior | caddy | An invalid directive makes the whole reload fail. | Invalid directives are skipped and the rest of the config is loaded.
behavior | jellyfin | Watch progress survives when the container is killed. | Watch progress is lost when the container is killed.
behavior | redis | Keys without a TTL are never evicted. | Keys without a TTL are evicted as well.
behavior | nginx | Requests are cut off after 60 seconds. | Requests are cut off after 5 minutes.
behavior | mariadb | Replication copes with tables that have no primary key. | Replication breaks on tables without a primary key.
behavior | docker | Changes to daemon.json are applied immediately. | Changes to daemon.json are ignored until the daemon is restarted.
behavior | unifi | Guests stay connected when the controller restarts. | Guests are disconnected when the controller restarts.
remediation | caddy | Removing the autosave file resolves the boot loop. | Removing the autosave file makes no difference to the boot loop.
remediation | nextcloud | Disable the antivirus app when uploads are slow. | Keep the antivirus app enabled even when uploads are slow.
remediation | postgres | It is safe to drop the stale replication slot. | Dropping the stale replication slot is dangerous.
remediation | wireguard | Lower the MTU when downloads hang. | Raise the MTU when downloads hang.
remediation | plex | Signing out and in again claims the server. | Signing out and in again does not claim the server.
maintenance | caddy | Access logs are deleted automatically. | Access logs must be deleted by hand.
maintenance | redis | Check memory fragmentation monthly. | Memory fragmentation should be checked daily.
maintenance | homeassistant | Replace the coin cells every 18 months. | Coin cells have to be replaced every six months.
maintenance | gitea | Runner tokens never have to be rotated. | Rotate the runner tokens twice a year.
maintenance | nextcloud | File versions are expired automatically. | File versions have to be cleaned up by hand.
timing | forgejo | Runners pick up jobs within five seconds. | Jobs wait for two minutes before a runner picks them up.
timing | mongodb | An election takes about 12 seconds. | Elections are over in less than two seconds.
dependency | loki | Promtail needs Loki to be up. | Promtail buffers logs and does not need Loki to be up.
dependency | seafile | Memcached is required. | Memcached is not required.
dependency | cron | The report job must run after the import job. | The report job must run before the import job.
behavior | haproxy | Reloads keep existing connections. | Reloads drop existing connections.
behavior | nodered | Deploying resets context variables. | Context variables are kept when flows are deployed.
behavior | keycloak | The admin console is slow with many users. | The admin console stays fast with many users.
remediation | seafile | seaf-fsck repairs broken libraries. | seaf-fsck cannot repair broken libraries.
remediation | ghost | Clearing the CDN cache helps with outdated posts. | Clearing the CDN cache does not help with outdated posts.
maintenance | mongodb | Compact the collections quarterly. | Compact the collections every week.
maintenance | seafile | Garbage collection needs the server to be stopped. | Garbage collection can run while the server is online.
maintenance | loki | Old chunks are deleted automatically. | Old chunks have to be removed by hand.
timing | postfix | Greylisting delays mail by five minutes. | Greylisting delays mail by half an hour.
timing | bind | Zone changes reach the secondaries within 15 minutes. | Secondaries only get zone changes after a day.
dependency | zabbix | Upgrade the proxy after the server. | Upgrade the proxy before the server.
dependency | samba | Domain logins need LDAP. | Domain logins work without LDAP.
behavior | k3s | Local volumes move with the pod. | Local volumes are not moved when a pod is rescheduled.
behavior | squid | The cache survives restarts. | The cache is lost on every restart.
behavior | dovecot | IMAP sessions survive a certificate change. | IMAP sessions are cut when the certificate is changed.
remediation | samba | Restarting winbind restores missing groups. | Restarting winbind does not restore missing groups.
remediation | openvpn | Reduce the MTU when mobile connections stall. | Increase the MTU when mobile connections stall.
maintenance | bind | DNSSEC keys are rolled automatically. | DNSSEC keys must be rolled by hand.
maintenance | k3s | Rotate the certificates yearly. | The certificates rotate themselves.
"""

_DISTINCT: Final = """
behavior | jellyfin | Restarting Jellyfin always fails on the first attempt but succeeds on the second, after the database releases its lock | DB lock takes 60s to release after ungraceful shutdown
timing | jellyfin | Takes 60s to start after restart | The library scan runs at 04:00
timing | jellyfin | Takes 60s to start after a restart | Stopping the container takes 20 seconds
timing | gitea | Needs two minutes after an upgrade | Mirror sync runs every 8 hours
timing | nextcloud | The cron job runs every 5 minutes | Preview generation finishes around 06:00
timing | postgres | The nightly backup begins at 02:00 | Autovacuum runs every minute
timing | postgres | Failover takes 30 seconds | The backup takes 30 minutes
timing | redis | Loading the dump takes 45 seconds | Snapshots are written every 15 minutes
timing | plex | The library scan runs on Sundays | Transcoder sessions time out after 10 minutes
timing | prometheus | Ready after 5 minutes | Scrape interval is 15 seconds
timing | backup | The full backup lasts 4 hours | Snapshots expire after 14 days
timing | traefik | Certificates are renewed 30 days before expiry | Config file changes are noticed within 2 seconds
dependency | caddy | Must be started after WireGuard | Needs port 80 free for the ACME challenge
dependency | gitea | Requires PostgreSQL | SSH access needs port 2222 to be open
dependency | sonarr | Needs the NFS share mounted | Depends on Prowlarr for its indexers
dependency | grafana | Depends on Prometheus | Login goes through Authelia
dependency | nextcloud | Redis is mandatory for file locking | Needs Collabora for document editing
dependency | immich | The machine learning container must be up first | Photos are stored on the NAS and need it mounted
dependency | vaultwarden | Needs a TLS certificate for logins | Push notifications need outbound internet access
dependency | keycloak | Must wait for the database migration | Theme files must be present in the volume
dependency | pihole | The upstream resolver has to be up first | DHCP must be disabled on the router
dependency | mail | Outgoing mail depends on the relay | Spam filtering needs the rspamd container
behavior | postgres | A config reload drops all connections | Logs a warning about collation after upgrades
behavior | jellyfin | Memory grows during transcoding | Subtitles are missing for remote clients
behavior | nginx | Returns 502 while the upstream restarts | Logs client addresses of the load balancer
behavior | redis | Refuses writes when the disk is full | Reports a latency spike while it forks
behavior | gitea | Webhooks are dropped if the queue is full | Large diffs crash the browser tab
behavior | prometheus | Loses samples on an unclean shutdown | Queries over 30 days run out of memory
behavior | sonarr | Health check reports OK when the database is locked | Renames files with illegal characters
behavior | unifi | Logs everyone out after an upgrade | Shows offline access points as connected for a while
behavior | docker | Containers lose network access after a firewall reload | The daemon keeps deleted log files open
behavior | nextcloud | Uploads larger than 2 GB fail | The desktop client shows wrong quota
behavior | kafka | A rebalance stops all consumers | Old segments are kept longer than configured
behavior | plex | High CPU during scans is normal | Loses its server claim after an IP change
behavior | minio | Healing saturates the network | Object listings are slow above a million keys
behavior | caddy | Reloads drop open connections | Access logs are buffered for a few seconds
remediation | jellyfin | Deleting the transcode cache frees the disk | Rescan the library when posters are missing
remediation | postgres | Restarting pgbouncer clears exhausted connections | REINDEX fixes wrong results after a collation change
remediation | redis | Remove the corrupt dump file | Raise maxmemory when keys get evicted
remediation | gitea | doctor check --fix repairs broken hooks | Regenerate authorized_keys when SSH logins fail
remediation | sonarr | Restart twice to get rid of the database lock | Re-add the download client when imports are stuck
remediation | nginx | Reloading is enough after changing the config | Purge the proxy cache when stale pages are served
remediation | docker | Pruning images resolves disk pressure | Restart the daemon when containers cannot be stopped
remediation | homeassistant | Replug the Zigbee stick | Delete the recorder database when the UI is slow
remediation | prometheus | Deleting the WAL fixes the crash loop | Reload rules with a SIGHUP
remediation | unifi | Rebooting the access point restores roaming | Re-adopt devices after a controller restore
maintenance | postgres | Run VACUUM FULL weekly | Rotate the replication password every year
maintenance | docker | Prune unused images monthly | Check the log driver's size limits after upgrades
maintenance | caddy | The internal CA has to be renewed every year | Review access logs monthly
maintenance | gitea | Purge action logs every 90 days | Garbage collect repositories each week
maintenance | nextcloud | Add missing indices after upgrades | Empty the trash bins monthly
maintenance | zfs | Scrub the pool every two weeks | Replace disks older than five years
maintenance | backup | Restore tests are due every quarter | Prune old snapshots weekly
maintenance | unifi | Back up the controller config before firmware updates | Change the guest password monthly
maintenance | mail | Rotate the DKIM keys twice a year | Clean the deferred queue weekly
timing | vault | Vault stays sealed for 20 seconds after the pod comes up. | Leases for database credentials expire after one hour.
timing | frigate | Recordings show up with a ten minute delay. | The detector needs 20 seconds to load its model.
timing | elasticsearch | A cold cluster needs five minutes to go green. | Snapshots are taken every night at 2 am.
timing | k8s | Pods get 90 seconds to shut down. | Image pulls from the registry take up to four minutes.
timing | gitlab | The runner polls every 3 seconds. | Nightly pipelines start at 02:15.
timing | ceph | Scrubs run between 1 am and 6 am. | An OSD is marked out ten minutes after it goes down.
timing | proxmox | Backups run from 22:00. | Live migration of a VM takes two minutes.
timing | zigbee | Battery devices report every 55 minutes. | Pairing mode closes after three minutes.
timing | matrix | Catching up after an outage takes half an hour. | Presence updates lag by a few seconds.
timing | jellyfin | Startup takes 60 seconds after a restart. | Trickplay images take two hours to generate for a new library.
timing | unbound | Negative answers are cached for five minutes. | Starting takes ten seconds because blocklists are loaded.
dependency | vault | Vault needs Consul before it can unseal. | Auto-unseal needs access to the cloud KMS.
dependency | frigate | Needs the Coral TPU. | Cameras must be in the IoT VLAN to be reached.
dependency | matrix | Synapse needs Postgres. | The TURN server must be reachable for calls.
dependency | paperless | Requires Redis to be running. | The consume folder must be on a local file system.
dependency | k8s | CoreDNS must be ready before operators. | Persistent volumes need the CSI driver.
dependency | gitlab | Sidekiq needs Redis. | Pages need a wildcard DNS record.
dependency | nextcloud | Collabora must reach Nextcloud over HTTPS. | External storage needs the smbclient package.
dependency | homeassistant | The Zigbee bridge has to be online first. | Cloud voice control needs a valid subscription.
dependency | rabbitmq | All nodes need the same Erlang cookie. | The management UI must be enabled as a plugin.
dependency | immich | Needs the vector extension. | Mobile uploads need a larger body limit in the proxy.
behavior | vault | Seals itself when the container is recreated. | Audit logs are written twice if two devices are enabled.
behavior | rabbitmq | Blocks publishers above the memory watermark. | The management UI is slow with thousands of queues.
behavior | elasticsearch | Indices become read-only at 95% disk usage. | Deep pagination is rejected past 10,000 results.
behavior | k8s | Evicted pods linger. | DNS lookups are slow because of ndots:5.
behavior | paperless | Duplicates are rejected silently. | Handwritten notes are recognised badly.
behavior | syncthing | Conflict copies pile up. | It ignores files that match patterns in .stignore.
behavior | proxmox | The UI shows question marks when pvestatd hangs. | VMs lose their clock after a suspend.
behavior | gitlab | Jobs stay pending without a matching runner. | Large merge requests time out when diffs are rendered.
behavior | minecraft | /reload breaks plugins. | Redstone machines lag the server when chunks unload.
behavior | grafana | Provisioned dashboards cannot be saved. | Alert rules keep firing after their data source is deleted.
behavior | nginx | Keeps the old certificate until it is reloaded. | Rejects headers larger than 8 KB.
behavior | ceph | Health goes to WARN during deep scrubs. | Small writes are slow on erasure-coded pools.
remediation | vault | Restarting Consul fixes a hanging unseal. | Revoke all leases under a prefix when credentials leaked.
remediation | frigate | Replug the Coral stick to bring detection back. | Lower the detection resolution when the CPU is overloaded.
remediation | elasticsearch | Clear the read-only block manually. | Reroute unassigned shards with retry_failed.
remediation | rabbitmq | Restart the owning node when queues are stuck. | Purge the dead letter queue when it grows.
remediation | k8s | Delete the pod to clear ImagePullBackOff. | Cordon the node before replacing its disk.
remediation | gitlab | Wait five minutes when pages return 502. | Clear the runner cache when builds fail with checksum errors.
remediation | matrix | Vacuum the state tables to shrink the database. | Restart the workers when sync requests time out.
remediation | syncthing | Reset the database when a folder is stuck. | Re-share the folder after a device id changes.
remediation | jellyfin | Turn hardware acceleration off against playback errors. | Refresh metadata when episodes are in the wrong order.
maintenance | vault | Rotate the root token every 90 days. | Test the unseal keys twice a year.
maintenance | elasticsearch | Delete old indices every month. | Upgrade one node at a time.
maintenance | etcd | Defragment weekly. | Take a snapshot before each upgrade.
maintenance | matrix | Purge remote media weekly. | Rotate the signing key every year.
maintenance | k8s | Renew control plane certificates yearly. | Drain nodes one by one for kernel updates.
maintenance | proxmox | Install kernel updates monthly. | Check the ZFS pool's free space weekly.
maintenance | zigbee | Change sensor batteries yearly. | Update the coordinator firmware when a release is out.
maintenance | postgres | REINDEX the events table monthly. | Archive partitions older than a year.
maintenance | gitlab | Clean up the registry monthly. | Rotate runner tokens every quarter.
timing | mosquitto | Retained messages arrive after 15 seconds. | Persistence is written to disk every half hour.
timing | wireguard | Sessions end after two minutes of silence. | The handshake is repeated every 120 seconds.
dependency | plex | Remote access needs port 32400. | Metadata agents need internet access.
dependency | kafka | ZooKeeper must be up first. | Schema validation needs the registry.
behavior | argocd | Manual changes are reverted. | The UI is slow with many applications.
behavior | authelia | TOTP codes fail with clock skew. | Redirects loop when the cookie domain is wrong.
remediation | mariadb | Wipe grastate to bring a node back. | Kill long queries when connections run out.
remediation | pihole | Flush the ARP cache when lookups time out. | Rebuild gravity when the lists are corrupt.
maintenance | plex | Empty the trash after deletions. | Update the server monthly.
maintenance | kafka | Check partition balance. | Renew the broker certificates yearly.
"""

_UNDECIDED: Final = """
dependency | gitea | Depends on PostgreSQL | Depends on Redis
behavior | traefik | Health check is served on /healthz | Health check is served on /status
timing | jellyfin | Takes 60s to start after restart | Takes 60s to start after restart when the disk is cold
timing | redis | Takes a long time to start | Takes 45 seconds to start with the full dump
behavior | nginx | Drops connections on reload | Drops websocket connections on reload when workers are busy
dependency | sonarr | Needs the media share mounted | Needs the media share and the downloads share mounted
remediation | postgres | Restarting clears the lock | Restarting pgbouncer clears the lock
maintenance | docker | Prune images monthly | Prune volumes monthly
behavior | plex | Scans use a lot of CPU | Scans use a lot of CPU on the old server
timing | backup | The backup runs at night | The backup runs at 02:00 on the primary
dependency | grafana | Must start after Loki | Must start after Loki and Tempo
remediation | unifi | Reboot the switch when cameras drop | Reboot the access point when cameras drop
maintenance | zfs | Scrub the pool tank every two weeks | Scrub the pool backup every two weeks
behavior | kafka | Consumers pause during a rebalance | Consumers in the billing group pause during a rebalance
remediation | nextcloud | Clearing the cache fixes login loops | Clearing the browser cache fixes login loops on mobile
timing | vault | Unsealing takes 20 seconds. | Unsealing takes 20 seconds on the standby nodes.
timing | frigate | Startup is slow. | Startup takes two minutes when all cameras are enabled.
timing | k8s | Rolling out the api deployment takes 5 minutes. | Rolling out the worker deployment takes 12 minutes.
timing | postgres | The nightly dump takes an hour. | The nightly dump of the analytics database takes three hours.
timing | ceph | Recovery is slow. | Recovery of a failed HDD takes a day, of an SSD two hours.
timing | gitlab | Pipelines are slow in the morning. | Pipelines are slow on Mondays.
timing | zigbee | Devices take a while to report after a restart. | Battery devices take up to an hour to report after a restart.
dependency | matrix | Needs Postgres. | Needs Postgres 13 or newer with C collation.
dependency | paperless | Requires Redis. | Requires Gotenberg.
dependency | frigate | Needs access to the USB bus. | Needs access to the GPU.
dependency | vault | Must start after Consul. | Must start after Consul and the NTP daemon.
dependency | immich | The server needs the database container. | The server needs the Redis container.
dependency | nextcloud | Depends on the NFS share for user data. | Depends on the NFS share for previews.
dependency | rabbitmq | Clustering needs port 4369 between nodes. | Clustering needs port 25672 between nodes.
behavior | elasticsearch | Searches time out under load. | Searches time out under load when aggregations are used.
behavior | k8s | Pods are evicted under memory pressure. | Best-effort pods are evicted first under memory pressure.
behavior | syncthing | Syncing stalls sometimes. | Syncing large videos stalls over mobile data.
behavior | gitlab | Webhooks are retried four times. | Failed webhooks are retried, then disabled.
behavior | nginx | Returns 502 when the backend restarts. | Returns 504 when the backend is overloaded.
behavior | proxmox | VMs on local storage cannot be migrated live. | Containers cannot be migrated live.
behavior | minecraft | The server lags with more than 20 players. | The server lags when many players explore new chunks.
behavior | unbound | Some lookups fail after the WAN address changes. | IPv6 lookups fail after the WAN address changes.
behavior | matrix | Messages arrive late. | Messages from bridged rooms arrive late.
remediation | frigate | Restarting the container brings cameras back. | Restarting go2rtc brings cameras back.
remediation | elasticsearch | Restart the data nodes when heap is exhausted. | Restart the coordinating nodes when heap is exhausted.
remediation | vault | Restarting fixes token errors. | Restarting the agent sidecar fixes token errors in the billing pods.
remediation | k8s | Deleting the pod helps. | Deleting the pod helps if the volume is not attached elsewhere.
remediation | jellyfin | Clear the cache when artwork is wrong. | Clear the browser cache when artwork is wrong.
remediation | caddy | Reload to pick up new sites. | Reload to pick up new certificates.
remediation | gitlab | Retrying the job usually works. | Retrying the job usually works, except for deploy jobs.
maintenance | vault | Rotate the database credentials monthly. | Rotate the TLS key monthly.
maintenance | etcd | Defragment every member weekly. | Defragment the leader last.
maintenance | proxmox | Prune backups older than 30 days. | Prune backups of test VMs older than 7 days.
maintenance | matrix | Purge old media regularly. | Purge old media of remote servers weekly.
maintenance | postgres | Vacuum the events table weekly. | Vacuum the sessions table weekly.
maintenance | k8s | Update the nodes monthly. | Update the worker nodes monthly and the masters quarterly.
maintenance | paperless | Back up the media folder. | Back up the database nightly.
timing | mosquitto | Reconnecting takes a few seconds. | Reconnecting over the mobile network takes a few seconds longer.
timing | nextcloud | The scan takes 20 minutes. | The scan of external storage takes two hours.
dependency | plex | Needs access to the media share. | Needs access to the GPU device.
dependency | argocd | Depends on the repo server. | Depends on the redis cache.
behavior | mariadb | Queries are slow in the evening. | Reporting queries are slow at month end.
behavior | pihole | Some ads still get through. | Ads on the TV still get through.
remediation | kafka | Restart the consumer when it is stuck. | Restart the connector when it is stuck.
remediation | plex | Refreshing the metadata fixes posters. | Refreshing the metadata of a single show fixes its posters.
maintenance | synology | Check the disks monthly. | Check the UPS battery monthly.
maintenance | authelia | Rotate the session secret yearly. | Rotate the session secret and the JWT secret yearly.
timing | jellyfin | The scan takes 40 minutes. | The scan of the music library takes 10 minutes.
dependency | grafana | Needs the Prometheus data source. | Needs the Loki data source.
behavior | nginx | Requests are sometimes cut off. | Long uploads are cut off after 60 seconds.
behavior | plex | Playback stutters. | Playback of 4K films stutters on the old TV.
remediation | traefik | Restarting fixes missing routes. | Restarting the socket proxy fixes missing routes.
remediation | docker | Restart the daemon when networking is broken. | Restart the host when networking is broken.
maintenance | redis | Check memory usage monthly. | Check the slow log monthly.
maintenance | plex | Clean up regularly. | Clean up old optimised versions every quarter.
"""


def _labelled(rows: str, label: str) -> list[tuple[str, str, str, str, str]]:
    pairs: list[tuple[str, str, str, str, str]] = []
    for row in rows.strip().splitlines():
        category, service, old, new = (part.strip() for part in row.split("|"))
        pairs.append((category, service, old, new, label))
    return pairs


PAIRS: Final = [
    *_labelled(_SAME, "same"),
    *_labelled(_CONTRADICTING, "contradicting"),
    *_labelled(_DISTINCT, "distinct"),
    *_labelled(_UNDECIDED, "undecided"),
]
