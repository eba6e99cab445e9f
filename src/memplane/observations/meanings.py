"""Which words of operations mean the same, and which mean the opposite (pure).

Each line of a table is one meaning: its words and, behind a bar, the words for its opposite. A
phrase is written with underscores. A word may have several meanings. Words are looked up by
their stems, so `restart` also stands for restarts, restarted and restarting.
"""

# ruff: noqa: E501 - one meaning in each line
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from memplane.observations import vocabulary
from memplane.observations.normalisation import WordToken, statement


class Meaning(NamedTuple):
    """What a word says.

    Args:
        name: The first word of its line.
        is_opposite: Whether it stands behind the bar.
        weight: How much it tells, in hundredths.
        is_state: Whether it says by itself that something works or does not.
    """

    name: str
    is_opposite: bool
    weight: int
    is_state: bool


_STATES: Final = """
work function succeed success operate operational keep_running keep_working continue_to_work continue_to_run run_on properly works_fine run_fine | fail failure break broken crash error fault malfunction collapse inoperable abort die exit unusable improperly crash_loop quit bail bail_out stop_working cease_to_work time_out timeout timed_out give_up go_wrong choke misbehave panic segfault stay_broken throw refuse_to unable
up running available reachable online alive ready healthy present mounted attached connected accessible plugged usable responsive in_place up_and_running operational plug_in exist plugged_in | down unavailable unreachable offline dead missing absent unmounted disconnected inaccessible gone lack not_ready unresponsive unplugged loss outage lost
fix resolve solve cure repair heal help remedy restore recover recovery bring_back come_back get_rid go_away goes_away went_away going_away vanish disappear relieve free release clear again back_to_normal unstick unblock get_going make_work do_the_trick trick take_care return bring return suffice rectify correct unlock eliminate mend sort_out prevent alleviate address | worsen inevitable continue useless no_effect in_vain no_difference no_use make_worse worse persist pointless ineffective no_help do_nothing has_no_effect make_no_difference to_no_avail still_there remain futile aggravate
allow permit accept admit let possible able capable tolerate support | deny refuse reject block forbid unacceptable incapable unsupported intolerant prohibit decline ban impossible prevent disallow
detect recognise recognize find notice discover spot pick_up | miss overlook unnoticed undetected
enough sufficient suffice | insufficient not_enough
safe harmless fine benign ignore normal expected no_problem nothing_wrong no_risk cosmetic without_risk no_harm no_real_problem without_problem no_cause_for_concern false_alarm | dangerous risky unsafe harmful real_problem abnormal risk corrupt damage
in_sync stay_in_sync synchronised synchronized | out_of_sync unsynchronised unsynchronized
graceful gracefully orderly | ungraceful ungracefully unclean dirty abrupt
improve better good | degrade worse bad badly poor poorly suffer poor deteriorate
correct correctly right | wrong incorrect incorrectly
visible see | hidden hide invisible
writable read_write | read_only
survive intact unaffected | lose lost loss lose_connection
"""
"""Each says by itself whether something works, is there or is allowed."""

_ACTS: Final = """
need require depend rely hinge essential prerequisite have_to has_to must mandatory necessary requirement dependent needed compulsory matter want should rely_on | optional independent independently unnecessary superfluous needless no_need nothing_to_do nothing_needed regardless_of not_required unneeded
enable turn_on switch_on activate turned_on switched_on | disable turn_off switch_off deactivate switched_off turned_off
automatic automatically auto by_itself itself on_its_own by_themselves themselves unattended own_accord autonomously self without_intervention without_help hands_off | manual manually by_hand hand somebody someone operator yourself intervention human person explicit explicitly
start boot launch begin startup come_up bring_up spin_up power_up kick_off set_in commence bring_online go_live power_on coming_up cold_start fire trigger initialise initialize kick_in init go_up | stop halt shutdown shut_down terminate power_off bring_down cease take_down pause
increase raise higher grow double enlarge widen rise expand accumulate pile_up build_up climb swell go_up grow_without_bound balloon creep pile add | decrease lower drop fall reduce diminish dwindle subside halve shrink fall smaller cut_down stay_flat flat
valid supported compatible well-formed consistent accurate true | invalid broken malformed expired expire unsupported incompatible inconsistent inaccurate false
fast quick quickly smooth smoothly instant instantly swift rapid rapidly swiftly | slow slowly sluggish lag laggy slowness sluggishly slow_down crawl
keep retain preserve survive withstand untouched persist intact unaffected remain stay hold | lose lost drop discard forget vanish cut kick disconnect interrupt wipe reset throw_away swallow cost
new fresh newly | old previous former
delete remove purge clear clean cleanup prune wipe erase trim evict empty reclaim discard drop flush clear_out clean_out housekeep throw_away get_rid dispose truncate | keep retain preserve store
same identical equal one share | different differ separate
open | close closed shut
full fill eat_up eat use_up exhaust run_out out_of fill_up saturate used_up no_space hit_the_limit | empty
high large big huge heavy long elevated bulk considerable | low small tiny short light little
more above exceed pass over past beyond greater larger bigger longer older least minimum | less below under fewer maximum smaller shorter younger
load import | unload export
lock | unlock
connect reconnect connection re-establish attach | disconnect
every all everything each everyone any both entire whole | some few single
parallel in_parallel simultaneous concurrent together at_the_same_time | sequential serial one_at_a_time one_by_one one_after_another separate
reversible undo undone | irreversible
permanent permanently for_good forever | temporary temporarily for_a_while briefly transient
rare rarely seldom uncommon hardly_ever | frequent often common
known familiar | unknown
supported | unsupported
quiet silent | noisy loud verbose
asynchronous async | synchronous
loose | strict
continue continue_to keep_on still go_on | stop cease
first | second third
public outside | private internal
day daytime daylight working_hours business_hours | night overnight
morning | evening
"""
"""What is done, or is wanted; each with what would undo or deny it."""

_THINGS: Final = """
abandon give_up drop
abort cancel interrupt
absorb swallow
access_point ap
achieve accomplish get reach manage
acknowledge confirm ack
acquire get obtain take grab
ad advert advertisement
address ip
adequate enough suitable appropriate fit
adjacent neighbouring next
adjust tune tweak change
admin administrator operator root
adopt provision
advance progress proceed
advertise announce
affect impact influence hurt impair touch concern disturb
again once_more anew
agree match coincide correspond fit consistent
ahead prior before already beforehand in_advance
alert alarm page warn notify
alert page alarm notification
alerting alertmanager
align adjust match
announce advertise
annual yearly year
app application
appear show come_up emerge crop_up turn_up pop_up surface into_view
append add attach
archive move_away offload
arrange set_up organise
arrive come turn_up get_in
artifact artefact
artwork poster cover
ask prompt request demand
assign allocate give
assume expect believe suspect
attach mount plug
attachment file
attention care watch
authorise authorize permission
automation rule routine
avoid prevent work_around workaround circumvent bypass sidestep steer_clear
backfill fill catch_up
backup dump
backup restore_point
backup save copy archive snapshot
balance rebalance rebalancing
bandwidth throughput speed
batch bulk block chunk
battery batteries
behave act react
belong part
blank white black green
bloat grow swell
bloat waste
blob object bucket
block_list blocklist blacklist
blocklist blacklist list_of_ads adlist gravity
bootstrap initialise seed
bottleneck limit constraint
bound tied limited
branch fork
break wreck ruin spoil
broker mqtt_broker message_broker
browse open view
browser chrome firefox
build compile
burden load strain stress
burn consume eat use
busy occupied
busy occupy block
cable wire lead
cache cached
calendar appointment
camera feed
capable able
capture record grab
catch_up resync recover
cause lead make result bring_about
certificate cert tls ssl https
chatty noisy verbose
cheap inexpensive
check poll probe ping query test look
checkpoint snapshot
choke clog jam congest block
choose select pick
claim take grab
cleanup housekeeping tidy tidy_up clean
client device endpoint
client user people visitor viewer consumer
clock time
clone checkout
cluster swarm
cold cold_start
collapse crash break fail fall_over
column field
commit push
commit revision
compaction compact merge
compensate make_up offset
complain warn whine grumble report
complete finish done end stop through over conclude completion finalise
complete full
complex complicated difficult hard
compress shrink zip pack
concurrent simultaneous parallel at_once at_the_same_time in_parallel
config configuration settings setting configure
configure set define specify declare
conflict collide clash contradict
confuse mislead
congest saturate clog overload overwhelm flood swamp
connection link session socket
consolidate compact
consume eat use take_up
consumer subscriber
contact address_book
contact reach connect talk_to speak_to communicate access
contain hold include
container pod docker
contention lock_contention conflict contend
continue proceed resume carry_on work_again keep_going go_on
control manage govern administer
cooldown cool_down
coordinate synchronise
copy replicate replica mirror sync replication synchronise synchronize synchronisation
copy transfer move
core main base
core_update version_update
corrupt corrupted corruption damaged mangled
costly expensive
count number amount
cpu processor core
cpu processor load
crash die exit abort panic segfault terminate fall_over go_down
crash_loop crashloop crashloopbackoff restart_loop
crash_loop restart_loop loop
cron timer schedule
daily day
dally linger
dashboard board
dashboard chart graph panel
database db
daylight_saving dst
dead_letter dlq
deadlock lock
decay fade degrade shrink
decrypt decryption
default out_of_the_box by_default standard stock
defer put_off postpone delay hold_back queue
defragment defragmentation
delete cleanup
delete remove erase drop get_rid discard
depart leave go
deplete exhaust drain used_up
deploy release ship roll_out
deprecate retire obsolete
desynchronise diverge drift deviate
detach unmount eject disconnect
diagnose investigate find_out debug
diminish dwindle shrink decrease subside fade
directly straight
directory folder dir
discover find detect
disk drive ssd hdd
disk volume storage space disk_space drive filesystem file_system space_on_disk
disrupt disturb interrupt interfere break
distribute spread share
dns name_resolution resolver domain_name
dns nameserver resolver
document doc file paper
domain hostname name
dongle stick device adapter
door gate
door window
double twice two_times
double twice twofold
downgrade roll_back older_version
download fetch pull get
downtime outage interruption
drain evacuate cordon
drastic severe extreme considerable
driver module
duplicate double twice repeated repeat
ease relieve help alleviate mitigate
edit modify change alter
election elect
election vote
email mail message
emergency urgent critical
empty clear flush wipe purge
encrypt encryption
endpoint check probe
enforce force impose insist
enlarge grow extend increase
enter get_into
entity object device
environment env variable
episode show series
erratic irregular inconsistent unpredictable flaky
error failure
escalate raise page
evaluate evaluation assess compute calculate
evening dusk
event message notification
eventually finally sooner_or_later in_the_end
evict eviction
exceed surpass go_over pass above more
excessive too_much heavy
exclude skip omit leave_out ignore
exclusive sole alone
expire expiry run_out lapse expiration valid
expire lapse run_out end invalid
explicitly deliberately
export dump write_out
expose publish open
extract unpack unzip
failback fail_back revert
fall_back revert switch
fall_behind lag trail
false wrong fake spurious bogus
familiar known
fan cooling
finish complete end done over conclude wrap_up
firewall iptables nftables ufw
firmware bios
flag switch option
flap bounce toggle oscillate fluctuate
flood spam overwhelm swamp
folder directory path
follow obey respect honour honor
force compel
forget lose
fragile brittle delicate
fragment fragmentation
full exhausted
garbage junk trash rubbish
garbage_collection gc
generate create make build issue
generate create produce build make
give_up abort stop
glitch hiccup problem trouble issue
gpu graphics_card graphics
gradually slowly bit_by_bit over_time steadily progressively
grant give allow
grind crawl
group role
grow bigger increase expand larger swell
handle process deal cope treat
handshake negotiation
hang freeze stall stuck unresponsive wedge hung frozen block stop
happen occur take_place arise run come_about
hardware hw acceleration gpu
hdd spinning_disk spinner hard_disk
heal settle recover
health healthcheck healthz
health_check probe liveness readiness
hesitate wait
hide conceal mask
hog monopolise monopolize busy occupy saturate keep_busy max_out eat eat_up consume use_up exhaust
holiday vacation
hostname host_name name
huge large big
idle inactive inactivity silence no_traffic without_traffic unused
idle quiet unused inactive asleep
ignore disregard skip
image container_image
immediately at_once right_away straight_away instantly
import load ingest read_in
important critical crucial essential vital
in_progress running active
inbound incoming received
inbox mailbox
include contain comprise
incoming inbound ingress
incur cause
index indices indexes
index reindex re-index indexing
ingress route
inherit take_over
initial first opening
initialise initialize set_up
install apply deploy set_up setup put_in
integration plugin addon add-on component
interact talk
interface ui web_ui web_interface gui frontend web_page web_console console dashboard page
intermittent sporadic occasional occasionally sometimes now_and_then from_time_to_time at_times every_so_often
interval period cadence frequency
intervene step_in intervention
investigate look_into examine
isolate separate quarantine
issue ticket bug
jam stick block
job task run cron
kernel linux_kernel
key token secret credential password
key_exchange rekey
kick_off begin start trigger launch fire
kill end_process sigkill drop cut close disconnect terminate
know aware remember
lag behind delay late latency wait hold lag_behind delayed postpone
lan local_network home_network
languish linger stay
last long span duration take
latency delay ping lag
leak grow
leap
lease dhcp
lease lock
legacy old
library media collection
lift remove raise
lift reset
light lamp bulb
limit cap quota maximum restrict
linger stay remain persist hang_around
listen bind
load pressure strain
load_balancer lb
lock_file lockfile pid_file
log journal logfile logs
log_out logged_out sign_out signed_out logout kick_out kicked_out expire sign_off
login authenticate authentication auth sign_in log_in
long lengthy extended prolonged
lookup name_resolution
loose lax
lose drop
maintain keep hold retain sustain
manually_run run_by_hand
mass bulk
meltdown crash
member node peer
memory ram heap oom out_of_memory
merge combine join
merge_request pull_request
mesh network
mess break confuse
metadata tag information
metric metrics sample samples measurement
metric metrics statistic
midnight
migrate migration move
minimal minor small slight negligible
misconfigure wrongly_configured
mismatch differ disagree inconsistent
mitigate ease alleviate reduce
monitor watch
month monthly
morning dawn
motion movement
mount mounted share
multiply double grow explode
music song track audio
namespace project tenant
narrow limited small
nat masquerade
neglect forget ignore skip
network net lan connectivity
night overnight nocturnal
nobody no_one
noisy loud
noon midday
noticeable visible visibly noticeably marked markedly obvious clearly
ntp chrony time_sync clock_sync
obsolete unused
occasion occasional now_and_then periodic periodically from_time_to_time regular regularly once_in_a_while
occupy take_up fill
offload move shift
often frequent regular every_now_and_then
old older previous
ongoing running in_progress progress underway
oom oom_kill oom_killed out_of_memory run_out_of_memory memory_exhaustion
optimise optimize tune improve defragment
order sequence
outgoing outbound egress
outgoing outbound sending
outlast survive outlive withstand tolerate resist
overflow fill_up exceed
overheat hot throttle thermal
overlap collide coincide
overload saturate busy
overnight at_night nightly night
override overwrite replace
overrun exceed overflow
owner ownership user
package plugin extension module
packet traffic
pair join connect bond
parameter argument
parity check_parity
partition volume disk slice
password passphrase passwd credential
patch fix update
path location place
patient wait
peak busy rush
peak maximum highest spike culminate
peak_hours busy_hours rush_hour
peer endpoint
performance throughput speed
permanent permanently forever for_good lasting
permission right access_right
permission right rights ownership privileges chmod chown acl
phone mobile smartphone handset
photo picture image
pile_up accumulate build_up collect
pipeline build ci workflow
plague haunt affect suffer
plug replug
plug_in connect attach
pod replica container
pool connection_pool
populate fill seed
port socket
poster artwork cover
power electricity mains
power_cut power_outage power_failure power_loss blackout
power_down switch_off shut_down
predict foresee
prefer favour favor
premature too_early early
prepare ready setup
primary master leader writer
print printer
print write log
process handle consume
produce generate emit output
prompt immediate quick
prone tend likely
protect guard secure
provider vendor host supplier
provision set_up prepare
proxy relay
proxy reverse_proxy gateway
prune trim clean_up thin_out
public external outside internet
publish publisher
publish send emit
quarter three_months quarterly
query search lookup
query statement sql
queue backlog
quorum majority
raid array pool
random randomly arbitrary
randomly sporadically
rare uncommon seldom
rate speed frequency
reach arrive
reach hit attain get_to
read reads reading
ready available up
reappear come_back return recur
reassign move
reauthenticate log_in_again re-authenticate
reboot rebooting restart_the_host restart_host
reboot restart_host power_on
rebuild regenerate recreate reconstruct
recalculate recompute
receive get incoming inbound fetch pull retrieve obtain
recent latest newest last
recharge charge
reconcile sync
reconfigure configure change
reconnect connect_again back reappear return come_back rejoin
reconnect re-establish rejoin reattach come_back reconnection
record recording
record zone
recreate redeploy rebuild re-create
redeliver resend
redirect forward send
redo repeat rerun run_again
refer reference point_to mention cite
refill fill replenish
regain get_back recover
regain reclaim free recover
register registration enrol sign_up join enlist
registry hub
registry image_store
regress break_again
reinstall install_again
reinstate restore put_back
release free
release version
reliable stable solid
reload reread refresh sighup re-read
relocate move migrate
remain stay keep continue persist
remember keep retain store
remind tell
remount mount_again mount
rename new_name
render draw
renew extend prolong refresh
renew renewal reissue re-issue rotate
reopen open_again
reorder shuffle sort
replace swap exchange substitute change new renew rotate
report say claim state tell
repository repo project
reprocess process_again replay
request query lookup call
reschedule postpone move
reserve set_aside keep_free
reset clear reinitialise reinitialize
resize grow extend
resolve resolution lookup
respond answer reply reach serve return reachable available ready responsive accept
restart bounce power_cycle toggle cycle replug unplug_and_replug turn_it_off_and_on restarting recycle relaunch
restore recover bring_back revive
resurface reappear return
resync synchronise catch_up
retention keep_for
retries attempts tries
retry try_again reattempt repeat again second_attempt
reuse share
reveal show expose
reverse upside_down
revert undo undone roll_back rollback overwrite reset
revoke withdraw cancel invalidate
roll rolling one_at_a_time one_by_one one_after_another node_by_node in_turn sequential sequentially step_by_step
rollout roll_out deployment release
rotate change renew replace cycle
rotate roll
rotate rotation
roughly around
route routing
router gateway
row record entry document
run_dry empty
runner agent builder
scale_up scale add_replicas
scan ocr
scan rescan scanning
scene preset
schedule plan timetable set due fall
schema migration
scrape collect gather poll
screen display panel
script command
script program code
scrub scrubbing
seal lock close
seed initial
send deliver transmit go_out outgoing outbound push publish
sensor detector
sensor device
separate split divide
separately individually
serialise queue
server host machine box node instance
service unit daemon
session cookie
session login log_in sign_in logged_in logon
settle stabilise stabilize calm_down steady steady_state
shard partition
share common joint
share mount nfs
shed drop
short brief
show display appear visible list listed see present surface
sign signature
silent silently quietly without_warning without_error without_notice without_telling without_an_error no_error no_notice unnoticed
silently quietly without_any_error no_error_is_shown
similar alike comparable
size large volume space
skewed skew drift off_by clock_skew
skip jump pass_over
skip omit leave_out bypass
sleep hibernate suspend
slow delay lag drag degrade
slow sluggish
small tiny compact
smooth smoothly fluid fluent without_stutter
soak absorb
socket sock
software soft
sort_out fix straighten_out
source origin root
spam junk
spare free available idle
spawn start fork create
speed_up accelerate faster quicker improve
spike surge burst
spin_up wake start
squeeze compress
ssd flash nvme
stack compose
stagger spread offset
stale old outdated orphaned
stall freeze hang block stop halt stick
standby secondary replica backup_node failover_node
starve starvation lack
statistic statistics analyze stats
store save keep persist
strand orphan
strange odd unexpected weird
stream play playback watch
stream playback play streaming
stretch extend
strict exact
struggle suffer lag slow
stutter jerk jerky judder choppy buffer buffering lag
subscribe subscription
subset part portion sample fraction
subside go_down ease fade
subtitle caption
suddenly abruptly
summer_time dst
supply provide give offer
support handle allow
suppress mute silence hide
swap pagefile
sweep clean purge
switch network_switch
symlink link
tab window
table collection
table relation
tag label
take_turns alternate
takeover take_over failover switchover promote promotion
tank drop collapse
team staff
temperature heat hot thermal
temporary tmp temp temporarily
temporary transient short-lived brief
theme skin
thrash swap
thread worker
threshold limit mark
thumbnail preview
tight scarce short
time clock
time_out expire
timeout time_limit deadline
timeout time_out timed_out
timezone tz
tiny small little
toggle switch flip
trace track
traffic requests
transaction commit
transcode convert encode conversion
transcode transcoding
trial retry try attempt again
trickle slow
trigger cause set_off provoke lead_to
trim truncate shorten
trip trigger
triple three_times thrice
trust accept
tv television
unaware unknown
unchanged same untouched
undergo go_through
unfinished incomplete partial half_done
unhealthy sick degraded
unlimited without_limit unbounded endless forever indefinitely without_bound
unmount umount
unpair remove
unplug disconnect pull
unresolved pending wait queue
unseal unlock
unstable flaky unreliable
unsupported incompatible
unusual odd uncommon
update change modify alter
update upgrade patch bump new_version
upload push send
upload transfer
ups battery_backup
upstream backend origin
usage use utilisation utilization consumption consume
user account person people
vacuum vacuuming
value number
variable setting option parameter flag
vary differ fluctuate
verbose debug
verify check test validate confirm inspect examine ensure make_sure review audit look_at
version release
video movie film clip
violate break
visible seen shown
volume claim pvc
volume mount share bind_mount
vpn tunnel wireguard
vulnerable prone
wait hold pause sleep allow give leave patience linger delay
wake resume wake_up
wal write_ahead_log journal
wan internet uplink
warm warm_up warmed_up prewarm
warm_up heat_up prime
warn caution
warn warning alert notify notice notification
watermark threshold
wear age
webhook hook callback
website site web_page page
weekend saturday sunday
weekly week
widen extend
wifi wi-fi wireless wlan
window between period
withdraw pull
worker process
write writes written writing
zombie dead orphan defunct
zone domain
"""
"""Things and acts that have other names, and no opposite."""

_LIGHT: Final = """
file
folder
finish
report
user
member
send
order
size
amount
value
state status
schedule
load
read
product
segment
access
spend
signal
list
line
part
entry item
data
command
page
message
name
number
process
mode
problem issue trouble
situation
condition
effect
call
hand
goe goes went
point
open
keep stay remain
leave
let
mark
many much lots plenty numerous
exist
use
interval match matching right certain at_a_time ingest ingestion copy possible
"""
"""Words that are often said along, and as often not."""

_WEAK: Final = """
able action activity actual advisable advise after afternoon afterward afterwards again ahead
almost already always amount another any any_more anymore app appear application as_long_as
as_soon_as assume at_all attempt back be because become before bit box carry_out case certain
cleanly close come complete completely consist constantly container continu correctly current
daemon directly do down due earlier elapse elapsed else end end_up entire entirely execut
expect experience extra face find follow following force full fully general get get_going give
go gossip half happen hard hit host hour immediate immediately in_order_to instance instead
involve itself keep kind know known last later least leave let long lot machine make make_sure
manage mean minute moment multiple nearly need no_longer_than normal note notice number observe
occur off once only operation order other otherwise out over own part pass passed perform
period place point possible prefer preferably prior procedure process program proper properly
put real reason recommend recommended regular reliabl reliably remember require result right
roughly run second see seem server servic service set several show show_up shows side simply
sit so_that software someone something soon sort stage step still straight subsequent
subsequently successfully suffer suggest sure system take take_effect take_place takes_effect
tend there_is_no_need_to thereafter thing through time time_span total totally try turn typical
up up_to use used using usual various via want way while whole wind_up wish yet
"""
"""Words that hardly tell anything beside others."""

_STATE_WEIGHT: Final = 50
_ACT_WEIGHT: Final = 60
_SLIGHT_WEIGHT: Final = 25
_THING_WEIGHT: Final = 90
_LIGHT_WEIGHT: Final = 40
_WEAK_WEIGHT: Final = 15
_SLIGHT: Final = frozenset({"need", "first", "every", "continue"})
"""Meanings that matter when they are turned around, and hardly else."""
PREFIX: Final = 6
"""Words that begin with as many letters of a known one may mean the same."""


class Lexicon(NamedTuple):
    """Meanings by the stems of a word or phrase, and the stems that tell hardly anything."""

    meanings: Mapping[tuple[str, ...], tuple[Meaning, ...]]
    weak: frozenset[tuple[str, ...]]
    longest: int
    akin: Mapping[str, tuple[Meaning, ...]]


@cache
def lexicon() -> Lexicon:
    """Return all meanings, by stems."""
    found: dict[tuple[str, ...], list[Meaning]] = {}
    for phrase, meaning in _entries():
        stems = _stems(phrase)
        if stems and meaning not in found.setdefault(stems, []):
            found[stems].append(meaning)
    weak = frozenset(map(_stems, _WEAK.split()))
    return Lexicon(
        {stems: tuple(meanings) for stems, meanings in found.items()},
        weak,
        max(map(len, (*found, *weak))),
        {
            stems[0][:PREFIX]: tuple(meanings)
            for stems, meanings in found.items()
            if len(stems) == 1 and len(stems[0]) >= PREFIX
        },
    )


def _entries() -> Iterator[tuple[str, Meaning]]:
    """Yield each word or phrase with what its line means; a meaning is named by its first word."""
    seen: Counter[str] = Counter()
    for table, weight, is_state in (
        (_STATES, _STATE_WEIGHT, True),
        (_ACTS, _ACT_WEIGHT, False),
        (_THINGS, _THING_WEIGHT, False),
        (_LIGHT, _LIGHT_WEIGHT, False),
    ):
        for line in table.strip().splitlines():
            sides = line.split("|")
            first = sides[0].split()[0]
            seen[first] += 1
            name = first if seen[first] == 1 else f"{first} {seen[first]}"
            for is_opposite, side in enumerate(sides):
                for phrase in side.split():
                    if not vocabulary.FILLERS.isdisjoint(phrase.split("_")):
                        continue  # what is left of it is another phrase
                    yield (
                        phrase,
                        Meaning(
                            name,
                            bool(is_opposite),
                            _SLIGHT_WEIGHT if name in _SLIGHT else weight,
                            is_state,
                        ),
                    )


def _stems(phrase: str) -> tuple[str, ...]:
    # The word behind it shows that an `off` at the end switches nothing off.
    tokens = statement(f"{phrase.replace('_', ' ')} zz").tokens[:-1]
    return tuple(map(spelling, tokens))


def spelling(token: WordToken) -> str:
    """Return what a token is looked up by: its stem, or that of the verb it is a form of."""
    return _FORMS.get(token.written, token.written)


_FORMS: Final = {
    form: verb
    for verb, forms in {
        "get": "gets got getting gotten",
        "go": "goe went",
        "come": "came",
        "take": "took taken",
        "make": "made",
        "have": "has had having",
        "keep": "kept",
        "lose": "lost",
        "send": "sent",
        "break": "broke broken",
        "bring": "brought",
        "hold": "held",
        "leav": "left",
        "grow": "grew grown",
        "rise": "rose risen",
        "fall": "fell fallen",
        "show": "shown",
        "write": "wrote written",
        "freez": "froze frozen",
        "hang": "hung",
        "begin": "began begun",
        "do": "done",
        "shut": "shuts",
        "free": "freed",
        "run": "ran",
        "give": "gave given",
        "find": "found",
        "drop": "drops",
        "choos": "chose chosen",
        "forget": "forgot forgotten",
    }.items()
    for form in forms.split()
}
