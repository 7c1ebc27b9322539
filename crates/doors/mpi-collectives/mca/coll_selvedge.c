/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * mca_coll_selvedge.so: a component of Open MPI 4.1 for collective operations (its framework `coll`).
 *
 * The preloaded library replaces MPI's C functions. Fortran's wrappers, MPI-IO and the MPI's own calls do not use
 * them, but call the functions of a communicator's module. This component puts its functions there. Each asks
 * libselvedge_mpi_collectives.so to carry the operation out; if that leaves it to the MPI, it calls the module function
 * that it has replaced (`beneath`).
 *
 * Invariants
 * 1. Only the MPI reports errors: an operation returns its code, and a request has it in its status.
 * 2. A blocking call on a communicator during another one on it is the component's own: the exchange by which processes
 *    agree on a group. It goes beneath.
 * 3. Before MPI_Init has ended and after MPI_Finalize has begun, all calls go beneath, because the library may not call
 *    MPI's functions then. All processes change over at the same operation.
 * 4. Non-blocking operations on the local communicator of an intercommunicator go beneath. Programs have no such
 *    communicator. MPI_Comm_idup of the intercommunicator starts them there at any moment of progress, while the MPI
 *    carries out the blocking ones.
 * 5. A request holds its communicator, so that a failure reaches its error handler. The module and its group end with
 *    the communicator.
 *
 * Costs: some 5 ns a call, 110 bytes and two pointers a function and communicator, an allocation a request.
 */
#include "ompi_config.h"

#include <limits.h>
#include <string.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/version.h"
#include "opal/mca/base/mca_base_var.h"

/* Passed to the library: how a request begins, with its address stored in `request`, and how it ends. */
struct selvedge_coll_requests {
    struct ompi_request_t *(*begin)(struct ompi_communicator_t *comm, struct ompi_request_t **request);
    void (*end)(struct ompi_request_t *request, int code);
};

/* Whether this version, for which the component was compiled, is that of the process's MPI. */
bool selvedge_coll_is_for(const char *version);
/* Makes the component carry operations out, instead of the library's own MPI_* functions. */
void selvedge_coll_takes_over(const struct selvedge_coll_requests *requests);
/* Ends a communicator's group. */
void selvedge_coll_ends(struct ompi_communicator_t *comm);

/* Returned for an operation that is left to the MPI. */
#define BENEATH INT_MIN

/* Above `tuned` (30); below `sync` (50) and `monitoring`, which call the functions beneath them. */
static int priority = 40;

struct selvedge_module {
    mca_coll_base_module_t super;
    /* The communicator's functions without this module. */
    mca_coll_base_comm_coll_t beneath;
    /* Whether a blocking operation is under way. */
    bool is_inside;
    /* Whether the communicator is the local one of an intercommunicator; set at the first non-blocking operation. */
    enum { UNKNOWN, NO, YES } is_of_inter;
};

/* If a module's function returns an incomplete request, the MPI stores the program's operation and types behind the
 * request's own fields: a callback, its argument and two pointers. Later it releases those that are not null
 * (ompi_coll_base_nbc_request_t, whose header is not installed completely). */
struct selvedge_request {
    ompi_request_t super;
    void *of_the_mpi[8];
};

#define EACH_OPERATION(DO) \
    DO(barrier) DO(bcast) DO(allreduce) DO(reduce) DO(reduce_scatter) DO(reduce_scatter_block) DO(allgather) \
    DO(ibarrier) DO(ibcast) DO(iallreduce) DO(ireduce) DO(ireduce_scatter) DO(ireduce_scatter_block) DO(iallgather)

static bool may_enter(const struct selvedge_module *module, struct ompi_communicator_t *comm)
{
    int32_t state = ompi_mpi_state;
    bool runs = state >= OMPI_MPI_STATE_INIT_COMPLETED && state < OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT;
    return runs && !module->is_inside && !ompi_comm_invalid(comm);
}

static bool may_start(struct selvedge_module *module, struct ompi_communicator_t *comm)
{
    if (module->is_of_inter == UNKNOWN) {
        module->is_of_inter = NO;
        for (int at = opal_pointer_array_get_size(&ompi_mpi_communicators); at-- > 0;) {
            struct ompi_communicator_t *other = opal_pointer_array_get_item(&ompi_mpi_communicators, at);
            if (other != NULL && OMPI_COMM_IS_INTER(other) && other->c_local_comm == comm) module->is_of_inter = YES;
        }
    }
    return module->is_of_inter == NO && may_enter(module, comm);
}

#define LIST(...) __VA_ARGS__

/* OPERATION(NAME, PARAMETERS, ARGUMENTS): the functions of an operation, with the parameters before the communicator.
 * The library's function takes a pointer for a request, or null if it is to wait. */
#define OPERATION(name, PARAMETERS, ARGUMENTS) \
    int selvedge_coll_##name(LIST PARAMETERS struct ompi_communicator_t *comm, struct ompi_request_t **request); \
\
    static int name(LIST PARAMETERS struct ompi_communicator_t *comm, mca_coll_base_module_t *base) \
    { \
        struct selvedge_module *module = (struct selvedge_module *)base; \
        if (may_enter(module, comm)) { \
            module->is_inside = true; \
            int code = selvedge_coll_##name(LIST ARGUMENTS comm, NULL); \
            module->is_inside = false; \
            if (code != BENEATH) return code; \
        } \
        return module->beneath.coll_##name(LIST ARGUMENTS comm, module->beneath.coll_##name##_module); \
    } \
\
    static int i##name(LIST PARAMETERS struct ompi_communicator_t *comm, struct ompi_request_t **request, mca_coll_base_module_t *base) \
    { \
        struct selvedge_module *module = (struct selvedge_module *)base; \
        int code = may_start(module, comm) ? selvedge_coll_##name(LIST ARGUMENTS comm, request) : BENEATH; \
        if (code != BENEATH) return code; \
        return module->beneath.coll_i##name(LIST ARGUMENTS comm, request, module->beneath.coll_i##name##_module); \
    }

OPERATION(barrier, (), ())
OPERATION(bcast, (void *memory, int count, struct ompi_datatype_t *type, int root,), (memory, count, type, root,))
OPERATION(allreduce, (const void *from, void *to, int count, struct ompi_datatype_t *type, struct ompi_op_t *op,), (from, to, count, type, op,))
OPERATION(reduce, (const void *from, void *to, int count, struct ompi_datatype_t *type, struct ompi_op_t *op, int root,),
          (from, to, count, type, op, root,))
OPERATION(reduce_scatter, (const void *from, void *to, const int *counts, struct ompi_datatype_t *type, struct ompi_op_t *op,),
          (from, to, counts, type, op,))
OPERATION(reduce_scatter_block, (const void *from, void *to, int count, struct ompi_datatype_t *type, struct ompi_op_t *op,),
          (from, to, count, type, op,))
OPERATION(allgather,
          (const void *from, int from_count, struct ompi_datatype_t *from_type, void *to, int to_count, struct ompi_datatype_t *to_type,),
          (from, from_count, from_type, to, to_count, to_type,))

/* Requests */

typedef struct selvedge_request selvedge_request;

static void construct_request(selvedge_request *request)
{
    memset(request->of_the_mpi, 0, sizeof request->of_the_mpi);
}

static OBJ_CLASS_INSTANCE(selvedge_request, ompi_request_t, construct_request, NULL);

static int free_request(struct ompi_request_t **request)
{
    if (!REQUEST_COMPLETE(*request)) return MPI_ERR_REQUEST;
    /* The MPI frees a failed request first, and then uses its communicator's error handler. So the communicator of the
     * last failed request is kept. */
    static struct ompi_communicator_t *of_failed;
    struct ompi_communicator_t *comm = (*request)->req_mpi_object.comm;
    if ((*request)->req_status.MPI_ERROR != MPI_SUCCESS) comm = __atomic_exchange_n(&of_failed, comm, __ATOMIC_ACQ_REL);
    OMPI_REQUEST_FINI(*request);
    OBJ_RELEASE(*request);
    *request = MPI_REQUEST_NULL;
    if (comm != NULL) OBJ_RELEASE(comm);
    return OMPI_SUCCESS;
}

static int cancel_request(struct ompi_request_t *request, int flag)
{
    (void)request, (void)flag;
    return MPI_ERR_REQUEST;
}

static struct ompi_request_t *begin_request(struct ompi_communicator_t *comm, struct ompi_request_t **place)
{
    struct selvedge_request *made = OBJ_NEW(selvedge_request);
    if (made == NULL) return NULL;
    struct ompi_request_t *request = &made->super;
    OMPI_REQUEST_INIT(request, false);
    /* The type selects the error handler. For OMPI_REQUEST_COLL it is MPI_COMM_WORLD's. */
    request->req_type = OMPI_REQUEST_PML;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
    request->req_status.MPI_TAG = MPI_ANY_TAG;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    request->req_status._ucount = 0;
    request->req_status._cancelled = 0;
    request->req_free = free_request;
    request->req_cancel = cancel_request;
    request->req_mpi_object.comm = comm;
    OBJ_RETAIN(comm);
    *place = request;
    return request;
}

static void end_request(struct ompi_request_t *request, int code)
{
    request->req_status.MPI_ERROR = code;
    ompi_request_complete(request, true);
}

static const struct selvedge_coll_requests requests = {begin_request, end_request};

/* The module of a communicator */

/* Stores the function beneath. If there is none, the module has none either. */
#define KEEP(name) \
    if (comm->c_coll->coll_##name != NULL) { \
        module->beneath.coll_##name = comm->c_coll->coll_##name; \
        module->beneath.coll_##name##_module = comm->c_coll->coll_##name##_module; \
        OBJ_RETAIN(module->beneath.coll_##name##_module); \
    } else { \
        module->super.coll_##name = NULL; \
    }

static int enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    struct selvedge_module *module = (struct selvedge_module *)base;
    EACH_OPERATION(KEEP)
    selvedge_coll_takes_over(&requests);
    return OMPI_SUCCESS;
}

static int disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    (void)base;
    selvedge_coll_ends(comm);
    return OMPI_SUCCESS;
}

#define CLEAR(name) \
    module->beneath.coll_##name = NULL; \
    module->beneath.coll_##name##_module = NULL; \
    module->super.coll_##name = name;

static void construct(struct selvedge_module *module)
{
    module->is_inside = false;
    module->is_of_inter = UNKNOWN;
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
    EACH_OPERATION(CLEAR)
}

#define RELEASE(name) \
    if (module->beneath.coll_##name##_module != NULL) OBJ_RELEASE(module->beneath.coll_##name##_module);

static void destruct(struct selvedge_module *module)
{
    EACH_OPERATION(RELEASE)
}

typedef struct selvedge_module selvedge_module;
static OBJ_CLASS_INSTANCE(selvedge_module, mca_coll_base_module_t, construct, destruct);

/* The component */

static int init_query(bool has_progress_threads, bool has_threads)
{
    (void)has_progress_threads, (void)has_threads;
    return OMPI_SUCCESS;
}

/* A communicator of one process and an intercommunicator have no group of nodes. */
static mca_coll_base_module_t *query(struct ompi_communicator_t *comm, int *its_priority)
{
    if (priority < 0 || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) return NULL;
    struct selvedge_module *module = OBJ_NEW(selvedge_module);
    *its_priority = priority;
    return module == NULL ? NULL : &module->super;
}

static int open_component(void)
{
    return selvedge_coll_is_for(OMPI_VERSION) ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

extern mca_coll_base_component_t mca_coll_selvedge_component;

static int register_parameters(void)
{
    mca_base_component_var_register(&mca_coll_selvedge_component.collm_version, "priority",
                                    "Priority of collective operations in aggregation nodes; below 0: never", MCA_BASE_VAR_TYPE_INT, NULL, 0, 0,
                                    OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY, &priority);
    return OMPI_SUCCESS;
}

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_selvedge_component = {
    .collm_version =
        {
            MCA_COLL_BASE_VERSION_2_0_0,
            .mca_component_name = "selvedge",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = open_component,
            .mca_register_component_params = register_parameters,
        },
    .collm_data = {MCA_BASE_METADATA_PARAM_NONE, {0}},
    .collm_init_query = init_query,
    .collm_comm_query = query,
};
