/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Address vectors: maps and tables, insertion, lookup, removal, printing, bad input, insertion that posts events;
 * fi_getname. fi_av(3), fi_cm(3).
 */
#include "suite.h"

#include <unistd.h>

static struct fid_av *av_open(struct side *side, struct fi_av_attr attr)
{
    struct fid_av *av = NULL;
    OK(fi_av_open(side->domain, &attr, &av, NULL));
    return av;
}

static unsigned char *addresses_of(struct side **sides, int count)
{
    size_t bytes = sides[0]->address_bytes;
    unsigned char *all = buffer((size_t)count * bytes);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(sides[i]->address_bytes, bytes);
        memcpy(all + (size_t)i * bytes, sides[i]->address, bytes);
    }
    return all;
}

static void sides_of_one_domain(struct side **sides, int count)
{
    sides[0] = side_open((struct wants){.caps = FI_MSG});
    for (int i = 1; i < count; i++) sides[i] = side_open((struct wants){.caps = FI_MSG, .beside = sides[0]});
}

CASE(types, 1,
     "fi_av_open: FI_AV_MAP, FI_AV_TABLE, and FI_AV_UNSPEC, which returns the chosen type; others are refused",
     .stock = "tcp;ofi_rxm: keeps no context of a vector | shm: keeps no context of a vector")
{
    static const enum fi_av_type TYPES[] = {FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC};
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG});
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    struct fid_av *av = NULL;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    enum fi_av_type told = info->domain_attr->av_type; /* unspecified: the provider chooses */
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        about("type %d, told %d", TYPES[i], told);
        struct fi_av_attr attr = {.type = TYPES[i]};
        int rc = fi_av_open(domain, &attr, &av, (void *)&TYPES[i]);
        if (!is_ours() && told != FI_AV_UNSPEC && TYPES[i] != FI_AV_UNSPEC && TYPES[i] != told) continue;
        OK(rc);
        CHECK_EITHER(attr.type, FI_AV_MAP, FI_AV_TABLE);
        if (TYPES[i] != FI_AV_UNSPEC) CHECK_EQ(attr.type, TYPES[i]);
        CHECK_PTR(av->fid.context, &TYPES[i]);
        OK(fi_close(&av->fid));
    }
    struct fi_av_attr unknown = {.type = 77}, flags = {.type = FI_AV_TABLE, .flags = 1ull << 40};
    REFUSED(fi_av_open(domain, &unknown, &av, NULL));
    if (is_ours()) REFUSED(fi_av_open(domain, &flags, &av, NULL));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

CASE(a_table_counts, 1,
     "FI_AV_TABLE: indices from 0 in the order of insertion, over several calls, without an array as well",
     .stock = "shm: its addresses differ in length")
{
    struct side *sides[12];
    sides_of_one_domain(sides, 12);
    unsigned char *all = addresses_of(sides, 12), found[ADDRESS_BYTES_MAX];
    size_t bytes = sides[0]->address_bytes;
    struct fid_av *av = av_open(sides[0], (struct fi_av_attr){.type = FI_AV_TABLE, .count = 4});
    fi_addr_t inserted[12];
    CHECK_RC(fi_av_insert(av, all, 5, inserted, 0, NULL), 5);
    CHECK_RC(fi_av_insert(av, all + 5 * bytes, 3, NULL, 0, NULL), 3);
    CHECK_RC(fi_av_insert(av, all + 8 * bytes, 4, inserted + 8, FI_MORE, NULL), 4);
    CHECK_RC(fi_av_insert(av, all, 0, NULL, 0, NULL), 0);
    for (fi_addr_t i = 0; i < 12; i++) {
        about("index %d", (int)i);
        if (i < 5 || i >= 8) CHECK_EQ(inserted[i], i);
        size_t room = sizeof found;
        OK(fi_av_lookup(av, i, found, &room));
        CHECK_EQ(room, bytes);
        CHECK_SAME(found, all + i * bytes, bytes);
    }
    OK(fi_close(&av->fid));
}

CASE(a_map_maps, 1, "FI_AV_MAP: each address gets its own fi_addr_t, which is usable and looks up to that address")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_SOURCE, .av_type = FI_AV_MAP});
    unsigned char found[ADDRESS_BYTES_MAX];
    size_t room = sizeof found;
    OK(fi_av_lookup(p.a->av, p.to_b, found, &room));
    CHECK_EQ(room, p.b->address_bytes);
    CHECK_SAME(found, p.b->address, room);
    char in[8];
    for (int i = 0; i < 2; i++) {
        POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        POST(fi_send(p.a->ep, "hello", 5, NULL, p.to_b, NULL));
        CHECK_EQ(WAIT_RX(p.b).source, p.to_a);
        WAIT_TX(p.a);
    }
}

CASE(lookup_of_what_is_not_there, 1, "fi_av_lookup: an index that was never assigned, or was removed, is an error",
     .stock = "tcp;ofi_rxm: finds an index that was never assigned | shm: finds an index that was never assigned | "
              "sockets: finds an index that was never assigned")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    unsigned char found[ADDRESS_BYTES_MAX];
    static const fi_addr_t NOT_THERE[] = {2, 100, 1ull << 40, FI_ADDR_NOTAVAIL};
    for (size_t i = 0; i < COUNT_OF(NOT_THERE); i++) {
        size_t room = sizeof found;
        if (i > 0 && !is_ours()) break;
        REFUSED(fi_av_lookup(p.a->av, NOT_THERE[i], found, &room));
    }
    OK(fi_av_remove(p.a->av, &p.to_b, 1, 0));
    size_t room = sizeof found;
    REFUSED(fi_av_lookup(p.a->av, p.to_b, found, &room));
}

CASE(lookup_into_a_short_buffer, 1, "fi_av_lookup: truncates, and returns the size needed",
     .stock = "shm: writes a byte more")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    unsigned char *found = buffer(ADDRESS_BYTES_MAX);
    for (size_t room = 0; room <= p.b->address_bytes; room += room < 4 ? 1 : 4) {
        memset(found, 0x5a, ADDRESS_BYTES_MAX);
        size_t told = room;
        OK(fi_av_lookup(p.a->av, p.to_b, found, &told));
        CHECK_EQ(told, p.b->address_bytes);
        CHECK_SAME(found, p.b->address, room);
        CHECK_BYTES(found + room, ADDRESS_BYTES_MAX - room, 0x5a);
    }
}

CASE(removed_and_inserted_again, 1,
     "fi_av_remove: an address may be inserted again, and is usable then; a table uses its lowest free index first",
     .stock = "sockets: uses no index again")
{
    struct side *sides[6];
    sides_of_one_domain(sides, 6);
    struct side *a = sides[0];
    unsigned char *all = addresses_of(sides, 6);
    size_t bytes = a->address_bytes;
    fi_addr_t inserted[6];
    CHECK_RC(fi_av_insert(a->av, all, 6, inserted, 0, NULL), 6);
    fi_addr_t some[2] = {inserted[4], inserted[1]};
    OK(fi_av_remove(a->av, some, 2, 0));
    fi_addr_t back = FI_ADDR_NOTAVAIL;
    CHECK_RC(fi_av_insert(a->av, all + 4 * bytes, 1, &back, 0, NULL), 1);
    CHECK_EQ(back, 1);
    char in[8];
    POST(fi_recv(sides[4]->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_send(a->ep, "back", 4, NULL, back, NULL));
    CHECK_EQ(WAIT_RX(sides[4]).len, 4);
    WAIT_TX(a);
    CHECK_RC(fi_av_insert(a->av, all + 1 * bytes, 1, &back, 0, NULL), 1);
    CHECK_EQ(back, 4);
    for (int i = 0; i < 200; i++) {
        OK(fi_av_remove(a->av, &back, 1, 0));
        CHECK_RC(fi_av_insert(a->av, all + 1 * bytes, 1, &back, 0, NULL), 1);
        CHECK_EQ(back, 4);
    }
}

CASE(remove_what_is_not_there, 1, "fi_av_remove: an unknown index is refused, and the flags must be 0",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    fi_addr_t none = 50, twice = p.to_b;
    REFUSED(fi_av_remove(p.a->av, &none, 1, 0));
    REFUSED(fi_av_remove(p.a->av, &twice, 1, 1ull << 40));
    OK(fi_av_remove(p.a->av, &twice, 1, 0));
    REFUSED(fi_av_remove(p.a->av, &twice, 1, 0));
}

CASE(one_vector_for_two_endpoints, 1, "fi_ep_bind: endpoints may share a vector, and an endpoint may not have two")
{
    struct side *a = side_open((struct wants){.caps = FI_MSG});
    struct fid_ep *ep = NULL;
    OK(fi_endpoint(a->domain, a->info, &ep, NULL));
    OK(fi_ep_bind(ep, &a->av->fid, 0));
    struct fid_av *second = av_open(a, (struct fi_av_attr){.type = FI_AV_TABLE});
    if (is_ours()) REFUSED(fi_ep_bind(ep, &second->fid, 0));
    OK(fi_close(&second->fid));
    OK(fi_ep_bind(ep, &a->tx->fid, FI_TRANSMIT));
    OK(fi_ep_bind(ep, &a->rx->fid, FI_RECV));
    OK(fi_enable(ep));
    unsigned char name[ADDRESS_BYTES_MAX];
    size_t bytes = sizeof name;
    OK(fi_getname(&ep->fid, name, &bytes));
    fi_addr_t first = side_insert(a, a), other = address_insert(a, name);
    char in[2][8];
    POST(fi_recv(ep, in[0], 8, NULL, FI_ADDR_UNSPEC, &in[0]));
    POST(fi_recv(a->ep, in[1], 8, NULL, FI_ADDR_UNSPEC, &in[1]));
    POST(fi_inject(a->ep, "x", 1, other));
    CHECK_PTR(WAIT_RX(a).context, &in[0]);
    POST(fi_inject(ep, "y", 1, first));
    CHECK_PTR(WAIT_RX(a).context, &in[1]);
    OK(fi_close(&ep->fid));
}

CASE(printed_addresses, 1, "fi_av_straddr: text of the address, truncated to the buffer, with the length needed",
     .stock = "shm: does not terminate a truncated text")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    char *text = buffer(512), whole[512];
    size_t room = 512;
    CHECK_PTR(fi_av_straddr(p.a->av, p.a->address, text, &room), text);
    memcpy(whole, text, 512);
    size_t needed = room;
    CHECK_OP(needed, >, 1);
    CHECK_OP(needed, <=, 512);
    CHECK_EQ(strlen(whole), needed - 1);
    if (is_ours()) CHECK_EQ(strncmp(whole, "selvedge://", 11), 0);
    for (size_t shorter = 1; shorter < needed; shorter += 5) {
        memset(text, 0x5a, 512);
        room = shorter;
        CHECK_PTR(fi_av_straddr(p.a->av, p.a->address, text, &room), text);
        CHECK_EQ(room, needed);
        CHECK_EQ(strncmp(text, whole, shorter - 1), 0);
        CHECK_EQ(text[shorter - 1], 0);
        CHECK_BYTES(text + shorter, 512 - shorter, 0x5a);
    }
    room = 512;
    fi_av_straddr(p.a->av, p.b->address, text, &room);
    CHECK_OP(strcmp(text, whole), !=, 0);
}

CASE(bad_addresses, 1,
     "fi_av_insert: invalid addresses are not inserted: the return value is the number inserted, FI_SYNC_ERR marks "
     "the others, and their fi_addr_t is FI_ADDR_NOTAVAIL",
     .needs = OUR_PROVIDER)
{
    struct side *sides[3];
    sides_of_one_domain(sides, 3);
    unsigned char *all = addresses_of(sides, 3);
    size_t bytes = sides[0]->address_bytes;
    for (int how = 0; how < 3; how++) {
        about("bytes of kind %d", how);
        if (how == 0) memset(all + bytes, 0, bytes);
        if (how == 1) memset(all + bytes, 0xff, bytes);
        if (how == 2) pattern_fill(all + bytes, bytes, 9);
        struct fid_av *av = av_open(sides[0], (struct fi_av_attr){.type = FI_AV_TABLE});
        fi_addr_t inserted[3] = {77, 77, 77};
        int errors[3] = {-5, -5, -5};
        CHECK_RC(fi_av_insert(av, all, 3, inserted, FI_SYNC_ERR, errors), 2);
        CHECK_EQ(errors[0], 0);
        CHECK_OP(errors[1], >, 0);
        CHECK_EQ(errors[2], 0);
        CHECK_EQ(inserted[1], FI_ADDR_NOTAVAIL);
        unsigned char found[ADDRESS_BYTES_MAX];
        size_t room = sizeof found;
        OK(fi_av_lookup(av, inserted[2], found, &room));
        CHECK_SAME(found, sides[2]->address, bytes);
        CHECK_RC(fi_av_insert(av, all + bytes, 1, inserted, 0, NULL), 0);
        OK(fi_close(&av->fid));
    }
}

CASE(no_addresses, 1, "fi_av_insert: NULL for the addresses, as an unset dest_addr, is refused",
     .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    fi_addr_t inserted = 0;
    REFUSED(fi_av_insert(side->av, NULL, 1, &inserted, 0, NULL));
    CHECK_RC(fi_av_insert(side->av, NULL, 0, &inserted, 0, NULL), 0);
}

CASE(insert_flags, 1, "fi_av_insert: unsupported flags are refused", .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    fi_addr_t inserted = 0;
    REFUSED(fi_av_insert(side->av, side->address, 1, &inserted, 1ull << 40, NULL));
    REFUSED(fi_av_insert(side->av, side->address, 1, &inserted, FI_PEEK, NULL));
}

CASE(duplicates, 1, "fi_av_insert: the same address twice is undefined by the manual; here both are usable",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_SOURCE});
    fi_addr_t again = side_insert(p.a, p.b);
    char in[8];
    for (int i = 0; i < 2; i++) {
        POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        POST(fi_inject(p.a->ep, "x", 1, i ? again : p.to_b));
        WAIT_RX(p.b);
    }
    side_insert(p.b, p.a);
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_inject(p.a->ep, "x", 1, p.to_b));
    CHECK_OP(WAIT_RX(p.b).source, !=, FI_ADDR_NOTAVAIL);
}

CASE(names_and_services, 1, "fi_av_insertsvc, fi_av_insertsym: a name that does not exist inserts nothing",
     .stock = "sockets: inserts a name that does not exist")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    fi_addr_t inserted = 77;
    int rc = fi_av_insertsvc(side->av, "no.such.host.invalid", "4711", &inserted, 0, NULL);
    CHECK_OP(rc, <=, 0);
    rc = fi_av_insertsym(side->av, "no.such.host.invalid", 1, "4711", 1, &inserted, 0, NULL);
    CHECK_OP(rc, <=, 0);
}

/* A service number that no concurrent case uses. */
static const char *own_service(void)
{
    static char text[8];
    snprintf(text, sizeof text, "%d", 1024 + getpid() % 64000);
    return text;
}

static struct fi_info *named(const char *service, uint64_t flags)
{
    struct fi_info *hints = hints_for((struct wants){.caps = FI_MSG}), *info = NULL;
    OK(fi_getinfo(api_version(), "127.0.0.1", service, flags, hints, &info));
    fi_freeinfo(hints);
    return info;
}

CASE(services, 1,
     "fi_getinfo, fi_av_insert: a service as dest_addr names the endpoint that was opened with that service as its "
     "src_addr; a service has one endpoint while that is open",
     .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    const char *service = own_service();
    struct fi_info *source = named(service, FI_SOURCE), *target = named(service, 0);
    fi_addr_t to = 77, again = 77;
    CHECK_RC(fi_av_insert(side->av, target->dest_addr, 1, &to, 0, NULL), 0);
    CHECK_EQ(to, FI_ADDR_NOTAVAIL);
    for (int round = 0; round < 2; round++) {
        about("round %d", round);
        struct fid_ep *ep = NULL, *second = NULL;
        if (round == 0) {
            OK(fi_endpoint(side->domain, source, &ep, NULL));
        } else {
            /* fi_setname takes the next free number */
            struct fi_info *any = named("0", FI_SOURCE);
            OK(fi_endpoint(side->domain, any, &ep, NULL));
            OK(fi_setname(&ep->fid, source->src_addr, source->src_addrlen));
            fi_freeinfo(any);
        }
        CHECK_RC(fi_endpoint(side->domain, source, &second, NULL), -FI_EADDRINUSE);
        OK(fi_ep_bind(ep, &side->rx->fid, FI_RECV | FI_TRANSMIT));
        OK(fi_ep_bind(ep, &side->av->fid, 0));
        OK(fi_enable(ep));
        REFUSED(fi_setname(&ep->fid, source->src_addr, source->src_addrlen));
        CHECK_RC(fi_av_insert(side->av, target->dest_addr, 1, &to, 0, NULL), 1);
        unsigned char found[ADDRESS_BYTES_MAX], own[ADDRESS_BYTES_MAX];
        size_t room = sizeof found, bytes = sizeof own;
        OK(fi_av_lookup(side->av, to, found, &room));
        OK(fi_getname(&ep->fid, own, &bytes));
        CHECK_OP(room, ==, bytes);
        CHECK(!memcmp(found, own, bytes));
        CHECK_RC(fi_av_insertsvc(side->av, "localhost", service, &again, 0, NULL), 1);
        fi_addr_t several[3];
        CHECK_RC(fi_av_insertsym(side->av, "127.0.0.1", 1, service, 3, several, 0, NULL), 1);
        CHECK_OP(several[0], !=, FI_ADDR_NOTAVAIL);
        CHECK_OP(several[1], ==, FI_ADDR_NOTAVAIL);
        CHECK_OP(several[2], ==, FI_ADDR_NOTAVAIL);
        fi_addr_t all[] = {to, again, several[0]};
        for (size_t i = 0; i < COUNT_OF(all); i++) {
            char in[8] = "";
            POST(fi_recv(ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
            POST(fi_inject(side->ep, "hello", 6, all[i]));
            WAIT_RX(side);
            CHECK_TEXT(in, "hello");
        }
        OK(fi_av_remove(side->av, all, COUNT_OF(all), 0));
        OK(fi_close(&ep->fid));
        CHECK_RC(fi_av_insert(side->av, target->dest_addr, 1, &to, 0, NULL), 0);
    }
    fi_freeinfo(source);
    fi_freeinfo(target);
}

CASE(addresses_are_no_names, 1, "fi_setname: refuses an address that fi_getname returned, and arbitrary bytes",
     .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG, .disabled = true});
    unsigned char bytes[ADDRESS_BYTES_MAX] = {0};
    REFUSED(fi_setname(&side->ep->fid, side->address, side->address_bytes));
    REFUSED(fi_setname(&side->ep->fid, bytes, side->address_bytes));
    REFUSED(fi_setname(&side->ep->fid, bytes, 8));
    REFUSED(fi_setname(&side->ep->fid, NULL, 0));
}

CASE(named_vectors, 1,
     "fi_av_open: a vector opened for reading must have a name and exist; shared ones are refused where FI_SHARED_AV "
     "is not claimed",
     .stock = "tcp;ofi_rxm: ignores FI_READ | shm: ignores FI_READ")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    struct fid_av *av = NULL;
    struct fi_av_attr unnamed = {.type = FI_AV_TABLE, .flags = FI_READ};
    REFUSED(fi_av_open(side->domain, &unnamed, &av, NULL));
    struct fi_av_attr none = {.type = FI_AV_TABLE, .flags = FI_READ, .name = "no_such_vector_4711"};
    REFUSED(fi_av_open(side->domain, &none, &av, NULL));
}

CASE(rx_address, 1, "fi_rx_addr: the first receive context of an address is the address")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    char in[8];
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_inject(p.a->ep, "x", 1, fi_rx_addr(p.to_b, 0, 0)));
    WAIT_RX(p.b);
}

CASE(removed_senders, 1,
     "fi_cq_readfrom: messages of a sender removed from the vector have the source FI_ADDR_NOTAVAIL")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_SOURCE});
    char in[8];
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_inject(p.a->ep, "x", 1, p.to_b));
    CHECK_EQ(WAIT_RX(p.b).source, p.to_a);
    if (!is_ours()) skip("not defined for all");
    OK(fi_av_remove(p.b->av, &p.to_a, 1, 0));
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_inject(p.a->ep, "x", 1, p.to_b));
    CHECK_EQ(WAIT_RX(p.b).source, FI_ADDR_NOTAVAIL);
}

/* ---- Names of endpoints ------------------------------------------------------------------------------------------ */

CASE(getname_of_short_buffers, 1, "fi_getname: -FI_ETOOSMALL where the buffer is too small, with the size needed")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    unsigned char *name = buffer(ADDRESS_BYTES_MAX);
    if (is_ours()) CHECK_EQ(side->address_bytes, 32);
    for (size_t room = 0; room < side->address_bytes; room += room < 3 ? 1 : 5) {
        memset(name, 0x5a, ADDRESS_BYTES_MAX);
        size_t told = room;
        CHECK_RC(fi_getname(&side->ep->fid, name, &told), -FI_ETOOSMALL);
        CHECK_EQ(told, side->address_bytes);
        CHECK_BYTES(name + room, ADDRESS_BYTES_MAX - room, 0x5a);
    }
    size_t told = side->address_bytes;
    OK(fi_getname(&side->ep->fid, name, &told));
    CHECK_SAME(name, side->address, told);
    CHECK_BYTES(name + told, ADDRESS_BYTES_MAX - told, told ? 0x5a : 0);
}

CASE(names_differ, 1, "fi_getname: each endpoint has its own address, of this domain or another")
{
    struct side *sides[9];
    sides_of_one_domain(sides, 8);
    sides[8] = side_open((struct wants){.caps = FI_MSG});
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < i; k++) CHECK_OP(memcmp(sides[i]->address, sides[k]->address, sides[0]->address_bytes), !=, 0);
}

/* ---- Events of insertions ---------------------------------------------------------------------------------------- */

CASE(insertion_by_events, 1,
     "FI_EVENT: insertions report to an event queue: -FI_ENOEQ before one is bound, then FI_AV_COMPLETE with the "
     "number; or refused when opened",
     .stock = "shm: inserts at once, without an event | sockets: closes the event queue under the vector")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
    struct fid_av *av = NULL;
    int rc = fi_av_open(side->domain, &attr, &av, NULL);
    if (rc != 0) {
        CHECK_OP(rc, <, 0);
        return;
    }
    fi_addr_t inserted = 77;
    CHECK_RC(fi_av_insert(av, side->address, 1, &inserted, 0, NULL), -FI_ENOEQ);
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_eq *eq = NULL;
    OK(fi_eq_open(side->fabric, &eq_attr, &eq, NULL));
    OK(fi_av_bind(av, &eq->fid, 0));
    int mark;
    OK(fi_av_insert(av, side->address, 1, &inserted, 0, &mark));
    struct fi_eq_entry entry;
    uint32_t event = 0;
    ssize_t got;
    long long until = now_ms() + WAIT_MS;
    while ((got = fi_eq_read(eq, &event, &entry, sizeof entry, 0)) == -FI_EAGAIN && now_ms() < until) progress();
    CHECK_EQ(got, sizeof entry);
    CHECK_EQ(event, FI_AV_COMPLETE);
    CHECK_PTR(entry.fid, &av->fid);
    CHECK_PTR(entry.context, &mark);
    CHECK_EQ(entry.data, 1);
    CHECK_EQ(inserted, 0);
    CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
    OK(fi_close(&av->fid));
    OK(fi_close(&eq->fid));
}
