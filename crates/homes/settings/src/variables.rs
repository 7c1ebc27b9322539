// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of environment variables: docs/reference/environment.md and `selvedge info` are made from it.

/// An environment variable.
pub struct Variable {
    /// The heading of its part of the page.
    pub group: &'static str,
    pub name: &'static str,
    /// The valid values.
    pub values: &'static str,
    pub default: &'static str,
    pub text: &'static str,
}

impl Variable {
    /// Whether its value must not appear in output.
    pub fn is_secret(&self) -> bool {
        self.name.ends_with("SECRET")
    }
}

/// All environment variables. Those of a group follow each other.
pub const VARIABLES: &[Variable] = &[
    Variable {
        group: "Configuration file",
        name: "SELVEDGE_CONFIG",
        values: "a file",
        default: "$XDG_CONFIG_HOME/selvedge.toml or ~/.config/selvedge.toml, then /etc/selvedge.toml",
        text: "The only configuration file that is read, instead of the user's and the machine's. /dev/null stands for none.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_DIR",
        values: "a directory",
        default: "/dev/shm, else $TMPDIR or /tmp",
        text: "The parent of the job directories. Each host has its own directory of this path; hosts cannot share \
               one.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_JOB",
        values: "a name",
        default: "set by the launcher; solo without one",
        text: "The name of the job and of its directory.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_RANK",
        values: "a number",
        default: "set by the launcher; 0 without one",
        text: "The rank of this process.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_SIZE",
        values: "a number",
        default: "set by the launcher; 1 without one",
        text: "The number of processes in the job.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_CORES",
        values: "a number",
        default: "set by the launcher; without one, all cores of the machine",
        text: "The number of cores that the job's processes share. With more processes than cores, waits sleep \
               sooner.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_RSH",
        values: "a command",
        default: "ssh",
        text: "The program by which selvedge run starts a command on another host, with options if needed. It takes \
               the host and the command, like ssh.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_AGENT",
        values: "a file on the hosts",
        default: "the path of this selvedge command",
        text: "The selvedge command that selvedge run starts on the hosts. It must have the launcher's version.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_RUN_FANOUT",
        values: "a number from 1 to 1024",
        default: "32",
        text: "The largest number of hosts on which selvedge run starts an agent itself. With more hosts these agents start \
               further ones, at most as many each. Then the hosts must reach each other by the remote shell.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_PMIX_LIB",
        values: "a file",
        default: "found by the loader, or beside the launcher",
        text: "The PMIx client library that processes load under a PMIx launcher.",
    },
    Variable {
        group: "Job and launcher",
        name: "SELVEDGE_PREFIX",
        values: "a directory",
        default: "where the selvedge command is installed",
        text: "The directory tree in which the selvedge command finds its libraries and benchmark programs.",
    },
    Variable {
        group: "NIC and memory",
        name: "SELVEDGE_MODE",
        values: "nic | host",
        default: "nic",
        text: "nic: the sender of a message runs the target's NIC. host: only the NIC's owner runs it, when its \
               program calls the library.",
    },
    Variable {
        group: "NIC and memory",
        name: "SELVEDGE_PATH",
        values: "auto | shared | cma | bounce",
        default: "auto",
        text: "The access to memory of other processes: mapped (shared), by cross-memory attach (cma), or copied by \
               the owner (bounce). auto: mapped where it is shared, else cma, or bounce where the kernel forbids cma. \
               shared refuses memory that is not shared.",
    },
    Variable {
        group: "NIC and memory",
        name: "SELVEDGE_HEAP_BYTES",
        values: "bytes, with K, M, G or T",
        default: "16G",
        text: "The upper limit of selvedge_alloc in one process. This reserves address space; memory is used only \
               when it is touched.",
    },
    Variable {
        group: "NIC and memory",
        name: "SELVEDGE_SPIN_US",
        values: "a time, in microseconds without a unit",
        default: "2000, or 2 with more processes than cores",
        text: "The time that a wait spins before it sleeps.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_FI_LANE_MAX",
        values: "bytes, with K, M, G or T",
        default: "16K",
        text: "The longest message that is copied into a ring of its target, at most 32K. Longer ones are copied \
               once, from the sender's buffer into the receiver's; with 0 all are.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_FI_SMALL_MAX",
        values: "bytes, with K, M, G or T",
        default: "2K",
        text: "Longer messages are copied directly into a posted receive, if the sender has mapped its buffer, and \
               into a ring otherwise.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_FI_TINY_MAX",
        values: "bytes, with K, M, G or T",
        default: "56",
        text: "On simulated machines with VELO and RMA: the longest message that is sent as one VELO message, at most \
               56.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_FI_VELO_MAX",
        values: "bytes, with K, M, G or T",
        default: "512",
        text: "On simulated machines with VELO and RMA: the longest message that is sent as several VELO messages, at \
               most 992.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_FI_BOUNCE_MAX",
        values: "bytes, with K, M, G or T",
        default: "4K",
        text: "On simulated machines with VELO and RMA: the longest message that is put into the target's memory for \
               this sender, at most 64K. The target gets longer ones from the sender's buffer.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_SHARED_MALLOC",
        values: "0 | 1",
        default: "1",
        text: "Blocks of malloc from 4K on and static data are shared memory, which the job's other processes map. \
               This is done by libselvedge_mpi_preload.so, which selvedge mpirun and selvedge env load.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_YIELD_EVERY",
        values: "a number",
        default: "32, or 1 with more ranks than cores",
        text: "With n, every nth call of sched_yield enters the kernel. This is done by libselvedge_mpi_preload.so.",
    },
    Variable {
        group: "MPI and libfabric",
        name: "SELVEDGE_MPI_COLLECTIVES",
        values: "0 | 1",
        default: "1",
        text: "Collective operations of MPI go through aggregation nodes. 0 in one process of a communicator turns \
               that off for all of it; SELVEDGE_LOG=info shows the reason.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SHMEM_SYMMETRIC_SIZE",
        values: "bytes or a fraction, with K, M, G or T",
        default: "4G, or a quarter of ulimit -v for all PEs together",
        text: "The size of each PE's symmetric heap. This reserves address space; memory is used up to the last \
               allocation. Also SMA_SYMMETRIC_SIZE.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SHMEM_DEBUG",
        values: "anything",
        default: "not set",
        text: "If set, every refused call is reported, with its PE and argument. Otherwise each process reports only \
               the first.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SHMEM_INFO",
        values: "anything",
        default: "not set",
        text: "If set, PE 0 prints OpenSHMEM's variables at start-up.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SHMEM_VERSION",
        values: "anything",
        default: "not set",
        text: "If set, PE 0 prints the library's version at start-up.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SELVEDGE_SHMEM_COUNTERS",
        values: "a number up to 262144",
        default: "4096",
        text: "The upper limit of counters for counting puts at one time, the same at every PE.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SELVEDGE_SHMEM_TRAFFIC",
        values: "0 | 1",
        default: "1",
        text: "selvedge top shows puts, gets and atomics in mapped memory of other PEs. 0 saves their counting, up to a \
               nanosecond each.",
    },
    Variable {
        group: "OpenSHMEM",
        name: "SELVEDGE_SHMEM_COLLECTIVES",
        values: "0 | 1",
        default: "1",
        text: "Collective operations of teams go through aggregation nodes where these are faster. 0 at one PE turns \
               that off for its teams; SELVEDGE_LOG=info shows the reason.",
    },
    Variable {
        group: "Aggregation nodes",
        name: "SELVEDGE_MANAGER",
        values: "host:port",
        default: "set by selvedge run --aggregation",
        text: "The aggregation manager (selvedge manager) whose nodes reduce between hosts. Without one, MPI and \
               OpenSHMEM reduce there by themselves.",
    },
    Variable {
        group: "Aggregation nodes",
        name: "SELVEDGE_MANAGER_SECRET",
        values: "pairs of hexadecimal digits",
        default: "SELVEDGE_SECRET",
        text: "The secret that manager, nodes and processes share. It is never printed.",
    },
    Variable {
        group: "Aggregation nodes",
        name: "SELVEDGE_AGGREGATION_BYTES",
        values: "bytes, with K, M, G or T",
        default: "16 requests of an aggregation node",
        text: "The longest MPI operation that nodes in switches or on other hosts carry out, the same for all \
               processes of a job. The MPI carries out longer ones.",
    },
    Variable {
        group: "EXTOLL and GASNet",
        name: "SELVEDGE_ADDRESS_TABLES",
        values: "a number from 1 to 512",
        default: "4",
        text: "The number of global address tables of a process. Each takes 2M and lets the process register 1G of \
               memory.",
    },
    Variable {
        group: "EXTOLL and GASNet",
        name: "SELVEDGE_FULL_MAILBOX",
        values: "wait | discard",
        default: "wait",
        text: "With a full mailbox: the sender waits for room, or the target's NIC discards and counts the message, \
               as the hardware does. Simulated machines discard.",
    },
    Variable {
        group: "EXTOLL and GASNet",
        name: "SELVEDGE_LOCK_WAITERS",
        values: "a number from 0 to 1024",
        default: "0",
        text: "The limit of failed lock requests that a NIC keeps until they succeed; others are answered at once. \
               The same for all processes of a job; simulated machines have limits.lock_waiters.",
    },
    Variable {
        group: "EXTOLL and GASNet",
        name: "GASNET_MAX_SEGSIZE",
        values: "bytes, with K, M, G or T",
        default: "256M",
        text: "The longest segment that gasnet_attach gives. The address tables and SELVEDGE_HEAP_BYTES limit it, \
               too.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_HOST",
        values: "a number",
        default: "set by selvedge run; else 0 on one host, and a different number on each of several",
        text: "The number of this process's host in its job: the node id of Portals.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_HOSTS",
        values: "a number",
        default: "set by the launcher; 1 without one",
        text: "The number of hosts in the job. With more than one, processes open links to those of other hosts.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_SECRET",
        values: "64 hexadecimal digits",
        default: "set by the launcher, different for each job; empty without one",
        text: "The secret of the job. Only processes with the same secret make links. It is never printed.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET",
        values: "auto | on | off",
        default: "auto",
        text: "on: endpoints of libfabric reach processes of other hosts. auto: they do, unless the launcher says \
               that all processes of the job are on this host.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_ADDRESS",
        values: "a name or an address",
        default: "set by the launcher",
        text: "The address by which the launcher reaches this host. Links use its interface, unless it is a loopback \
               address.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_INTERFACE",
        values: "an interface or an address",
        default: "SELVEDGE_NET_ADDRESS, else the first interface that is up",
        text: "The interface of this host that links use: its name (eth0) or one of its addresses.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_PROVIDER",
        values: "a provider of libfabric",
        default: "libfabric's first with reliable datagrams",
        text: "The libfabric provider that carries the links (tcp;ofi_rxm, verbs;ofi_rxm, ...), the same on all \
               hosts. sockets is refused: libfabric advises against it, and messages stop over it.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_PROGRESS",
        values: "thread | calls",
        default: "thread",
        text: "thread: a thread makes progress on links while the program does not call the library. calls: only the \
               program's calls do.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_CHECK",
        values: "none | crc | mac",
        default: "none",
        text: "The check of each frame, the same on all hosts: a CRC-32C, or a tag that only the job's processes can \
               make (mac: keyed BLAKE3). With a check, frames that are damaged, lost, doubled or out of order are \
               repeated.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_LINKS",
        values: "a number",
        default: "256",
        text: "The number of links to other processes, and of links from them, beyond which a process closes idle ones. \
               A closed link opens again at its next message.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_FAULTS",
        values: "loss=0.01,corrupt=0.01,double=0.01,reorder=0.01,refuse=0.01,delay=2ms,seed=7, or some of these",
        default: "none",
        text: "For tests: the shares of arriving frames that get each fault, their longest delay, and the seed of the \
               random numbers. A malformed value is an error.",
    },
    Variable {
        group: "Several hosts",
        name: "SELVEDGE_NET_TIMEOUT",
        values: "a time, in seconds without a unit",
        default: "5",
        text: "A host that is silent for this time is lost, and requests to it fail; at least 1. The end of a single \
               process is noticed at once.",
    },
    Variable {
        group: "Logging and recording",
        name: "SELVEDGE_LOG",
        values: "off | error | warn | info | debug | trace",
        default: "warn",
        text: "The lowest severity of messages on standard error. The libfabric provider writes to libfabric's log \
               instead (FI_LOG_LEVEL).",
    },
    Variable {
        group: "Logging and recording",
        name: "SELVEDGE_OTF2",
        values: "a directory without an archive",
        default: "not set",
        text: "The directory in which an OpenSHMEM program writes a trace of its calls in OTF2. All hosts share it. PE 0 \
               needs the OTF2 library.",
    },
    Variable {
        group: "Logging and recording",
        name: "SELVEDGE_REGION",
        values: "a region's name",
        default: "not set",
        text: "The region of the program (selvedge_region_begin, shmemx_region_begin; main: shmem_pcontrol) in which each \
               process counts its NICs' registers. It prints them when it ends.",
    },
    Variable {
        group: "Logging and recording",
        name: "SELVEDGE_RECORD",
        values: "a directory",
        default: "not set",
        text: "The directory in which each NIC records what it does, for selvedge rtl replay, the same for all \
               processes of a job. NICs are slower then, as every put takes a lock.",
    },
    Variable {
        group: "Logging and recording",
        name: "SELVEDGE_RECORD_RANK",
        values: "a number",
        default: "all ranks",
        text: "The only rank whose NICs SELVEDGE_RECORD records.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_SIM_TSC",
        values: "0 | 1",
        default: "1",
        text: "For ranks of selvedge sim: whether rdtsc counts virtual time. 0 leaves the processor's counter real.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_OPENMPI",
        values: "a directory",
        default: "build/peers/openmpi, else from PATH",
        text: "The prefix of the Open MPI that selvedge bench measures.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_MPICH",
        values: "a directory",
        default: "build/peers/mpich, else from PATH",
        text: "The prefix of the MPICH that selvedge bench measures.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_UCX",
        values: "a directory",
        default: "build/peers/ucx, else from PATH",
        text: "The prefix of the UCX that selvedge bench measures.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_OSHMEM",
        values: "a directory",
        default: "build/peers/oshmem, else from PATH",
        text: "The prefix of Open MPI's OpenSHMEM, which selvedge bench shmem measures.",
    },
    Variable {
        group: "Simulation and benchmarks",
        name: "SELVEDGE_SANDIA",
        values: "a directory",
        default: "build/peers/sandia, else from PATH",
        text: "The prefix of Sandia OpenSHMEM, which selvedge bench shmem measures.",
    },
];
