#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Generates the registers of `selvedge-nic` and the documentation page from the description.

    export.py DESCRIPTION RUST_FILE MARKDOWN_FILE

PeakRDL's own exporters generate the rest (generate.sh). Its exporter for Rust accesses registers through pointers, with
unsafe code and volatile loads; `selvedge-nic` has neither. So this one generates names, addresses and sentences, and the
NIC has the memory.

Rules of the description, beyond SystemRDL (an error names file and line):
1. The version is at offset 0.
2. Every register has a sentence (desc) and the unit of its value (counts).
3. A register of a register file is a counter of the register block: one word, without an index. Its name is unique.
4. Registers of an address map below the top are tables: they have an index, or occur once.
"""

import sys

from systemrdl import RDLCompileError, RDLCompiler
from systemrdl.node import AddrmapNode, MemNode, RegfileNode, RegNode

MADE = "Made by `make registers` from registers/*.rdl; not to be edited."
# Tables in a NIC's memory start at multiples of this number of bytes.
TABLE_ALIGN = 128


class Item:
    """A register or a memory: one value, or one for each index."""

    def __init__(self, unit, node, name, address, stride, entries):
        self.unit = unit
        self.node = node
        self.name = name
        self.address = address
        self.stride = stride
        self.entries = entries
        self.title = node.get_property("name")
        self.text = node.get_property("desc")
        self.counts = node.get_property("counts")
        self.live_write = node.get_property("live_write")

    @property
    def variant(self):
        return "".join(part.capitalize() for part in self.name.replace(".", "_").split("_"))

    @property
    def is_readable(self):
        return isinstance(self.node, MemNode) or self.node.has_sw_readable

    @property
    def software(self):
        """Accesses that hardware allows to software."""
        if isinstance(self.node, MemNode):
            return "read, write" if self.node.is_sw_writable else "read"
        allowed = [word for word, has in (("read", self.node.has_sw_readable), ("write", self.node.has_sw_writable)) if has]
        return ", ".join(allowed)

    @property
    def fields(self):
        return [] if isinstance(self.node, MemNode) else list(self.node.fields())


class Description:
    """The registers, in the order of their addresses, after the checks."""

    def __init__(self, compiler, top):
        self.message = compiler.env.msg
        self.top = top
        self.failed = False
        self.counters = []
        self.tables = []
        self.version = None
        self.units = []
        for child in top.children(unroll=False):
            if isinstance(child, RegNode):
                self.take_version(child)
            elif isinstance(child, RegfileNode):
                self.units.append(child)
                self.take_counters(child)
            elif isinstance(child, AddrmapNode):
                self.units.append(child)
                self.take_tables(child, child, "", None, None)
            else:
                self.error(child, "the top may have only the version register, register files and address maps")
        if self.version is None:
            self.error(top, "the top has no version register at offset 0")
        self.check_names()

    def error(self, node, text):
        self.failed = True
        self.message.error(text, node.inst_src_ref)

    def take_version(self, node):
        if node.absolute_address != 0 or node.inst_name != "version":
            self.error(node, "the only register of the top is the version, at offset 0")
            return
        self.version = next(iter(node.fields())).get_property("reset")

    def take_counters(self, unit):
        for node in unit.children(unroll=False):
            if not isinstance(node, RegNode) or node.is_array:
                self.error(node, "a register file of the top has counters only: registers without an index")
                continue
            self.counters.append(self.checked(Item(unit, node, node.inst_name, node.absolute_address, 0, 1)))

    def take_tables(self, unit, parent, prefix, stride, entries):
        """Registers below `parent`, which may be an array itself."""
        for node in parent.children(unroll=False):
            name = prefix + node.inst_name
            if isinstance(node, MemNode):
                width = node.get_property("memwidth") // 8
                count = node.get_property("mementries")
                self.tables.append(self.checked(Item(unit, node, name, node.raw_absolute_address, width, count)))
                continue
            if node.is_array and (stride is not None or len(node.array_dimensions) != 1):
                self.error(node, "a register has at most one index")
                continue
            of_node = (node.array_stride, node.array_dimensions[0]) if node.is_array else (stride, entries)
            if isinstance(node, RegNode):
                address = node.raw_absolute_address
                self.tables.append(self.checked(Item(unit, node, name, address, of_node[0] or 0, of_node[1] or 0)))
            else:
                self.take_tables(unit, node, name + ".", *of_node)

    def checked(self, item):
        if not item.text:
            self.error(item.node, f"register {item.name} has no sentence: give it a desc")
        if not item.counts:
            self.error(item.node, f"register {item.name} has no counts property: give it the unit of its value")
        if isinstance(item.node, RegNode) and item.node.get_property("regwidth") != 64:
            self.error(item.node, f"register {item.name} is not one word of 64 bits")
        if item.live_write not in (None, "lock", "owner"):
            self.error(item.node, f'register {item.name}: live_write is "lock" or "owner", not "{item.live_write}"')
        return item

    def check_names(self):
        seen = {}
        for item in self.counters + self.tables:
            if item.name in seen:
                self.error(item.node, f"two registers have the name {item.name}")
            seen[item.name] = item

    @property
    def block_bytes(self):
        end = max(item.address for item in self.counters) + 8
        return (end + TABLE_ALIGN - 1) // TABLE_ALIGN * TABLE_ALIGN


def string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def getter(lines, doc, name, kind, rows):
    """A constant function with one arm for each variant."""
    lines += [f"    /// {doc}", f"    pub const fn {name}(self) -> {kind} {{", "        match self {"]
    lines += [f"            Self::{variant} => {value}," for variant, value in rows]
    lines += ["        }", "    }", ""]


def rust(description):
    lines = [
        "// SPDX-License-Identifier: Apache-2.0 OR MIT",
        f"// {MADE}",
        "//! The registers of a NIC: names, addresses and sentences from the description.",
        "",
        "/// Version of the layout of a NIC's memory. The register at offset 0 holds it.",
        f"pub const VERSION: u32 = {description.version};",
        "/// Bytes of the register block: the version, then the counters.",
        f"pub const BLOCK_BYTES: usize = {description.block_bytes};",
        "",
        "/// A counter of the NIC. Its value as an integer is the index of its word in the register block.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "#[repr(usize)]",
        "pub enum Register {",
    ]
    for item in description.counters:
        lines += [f"    /// {item.text}", f"    {item.variant} = {item.address // 8},"]
    lines += ["}", "", "impl Register {", "    /// All counters, by address.", "    pub const ALL: &'static [Register] = &["]
    lines += [f"        Self::{item.variant}," for item in description.counters]
    lines += ["    ];", ""]
    of = lambda value: [(item.variant, value(item)) for item in description.counters]
    getter(lines, "The functional unit that the counter belongs to.", "block", "&'static str", of(lambda i: string(i.unit.inst_name)))
    getter(lines, "The name that tools show.", "name", "&'static str", of(lambda i: string(i.name)))
    getter(lines, "The unit of the counter's value.", "unit", "&'static str", of(lambda i: string(i.counts)))
    getter(lines, "Its description, in a sentence.", "text", "&'static str", of(lambda i: string(i.text)))
    lines[-1:] = ["}", ""]
    lines += [
        "/// A register of a unit's tables: one value, or one for each index.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "pub enum TableRegister {",
    ]
    for item in description.tables:
        lines += [f"    /// {item.text}", f"    {item.variant},"]
    lines += ["}", "", "impl TableRegister {", "    /// All table registers, by unit.", "    pub const ALL: &'static [TableRegister] = &["]
    lines += [f"        Self::{item.variant}," for item in description.tables]
    lines += ["    ];", ""]
    of = lambda value: [(item.variant, value(item)) for item in description.tables]
    getter(lines, "The tables that the register belongs to.", "block", "&'static str", of(lambda i: string(i.unit.inst_name)))
    getter(lines, "The name that tools show. If it has a dot, the index is written before the dot.", "name", "&'static str", of(lambda i: string(i.name)))
    getter(lines, "The unit of its value.", "unit", "&'static str", of(lambda i: string(i.counts)))
    getter(lines, "Its description.", "text", "&'static str", of(lambda i: string(i.text)))
    getter(lines, "The address of its first value in the address map of hardware.", "address", "u64", of(lambda i: f"{i.address:#x}"))
    getter(lines, "The largest number of values. 0: the register has no index.", "entries_max", "u32", of(lambda i: i.entries))
    getter(lines, "Bytes between the addresses of two values.", "stride", "u64", of(lambda i: f"{i.stride:#x}"))
    getter(lines, "Whether software can read the register. If not, it reads as 0.", "is_readable", "bool", of(lambda i: str(i.is_readable).lower()))
    writes = {None: "Fixed", "lock": "Locked", "owner": "Owner"}
    getter(lines, "The right to change the register while the NIC runs.", "live_write", "LiveWrite", of(lambda i: f"LiveWrite::{writes[i.live_write]}"))
    lines[-1:] = ["}", ""]
    lines += [
        "/// The right to change a register of a NIC that runs.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "pub enum LiveWrite {",
        "    /// No process: the value follows from the NIC's limits, or the units advance it.",
        "    Fixed,",
        "    /// Only the NIC's owner.",
        "    Owner,",
        "    /// The holder of the NIC's lock, by [`write_register`](crate::Nic::write_register).",
        "    Locked,",
        "}",
    ]
    return "\n".join(lines) + "\n"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def bits(field):
    return str(field.low) if field.high == field.low else f"{field.high}:{field.low}"


def markdown(description):
    top = description.top
    lines = [
        "# Registers",
        "",
        f"<!-- {MADE} -->",
        "",
        f"{top.get_property('desc')} The description is [registers/selvedge.rdl](../../registers/selvedge.rdl);",
        "[design/registers.md](../design/registers.md) describes its use. `selvedge registers` shows the values of live NICs.",
        "",
        f"Offset 0 holds the version, {description.version}. Addresses count bytes. Every register is a little-endian word of 64 bits. Addresses below",
        f"{description.block_bytes:#x} are also offsets in the register block of a NIC's segment, which [design/memory.md](../design/memory.md) describes.",
        "Counters only grow. Any process may read them without the NIC's lock. `PtlNIStatus` returns `dropped`",
        "(plus `refused_disabled`), `permission_violations` and `operation_violations`. In the tables, *hardware* is the access of software",
        "to a register in hardware, *live* the access of a tool to the register of a NIC in shared memory.",
    ]
    for unit in description.units:
        lines += ["", f"## {unit.get_property('name')}", "", f"`{unit.inst_name}`: {unit.get_property('desc')}", ""]
        counters = [item for item in description.counters if item.unit.inst_name == unit.inst_name]
        if counters:
            lines += ["| address | register | counts | meaning |", "|---|---|---|---|"]
            lines += [f"| `{item.address:#05x}` | `{item.name}` | {item.counts} | {cell(item.text)} |" for item in counters]
            continue
        lines += ["| address | register | entries | counts | hardware | live | meaning |", "|---|---|---|---|---|---|---|"]
        tables = [item for item in description.tables if item.unit.inst_name == unit.inst_name]
        live = {None: "read", "owner": "read; the owner writes", "lock": "read, write"}
        for item in tables:
            place = f"`{item.address:#08x}`" + (f" + `{item.stride:#x}` i" if item.entries else "")
            name = item.name.replace(".", "[i].") if "." in item.name else item.name + ("[i]" if item.entries else "")
            allowed = live[item.live_write] if item.is_readable else "write"
            lines.append(
                f"| {place} | `{name}` | {item.entries or 1} | {item.counts} | {item.software} | {allowed} | "
                f"{cell(item.title + ': ' + item.text)} |"
            )
        several = [item for item in tables if len(item.fields) > 1]
        for item in several:
            lines += ["", f"Fields of `{item.name}`:", "", "| bits | field | meaning |", "|---|---|---|"]
            for field in item.fields:
                encode = field.get_property("encode")
                values = "" if encode is None else " " + " ".join(
                    f"{member.value}: {member.name}." for member in encode
                )
                lines.append(f"| {bits(field)} | `{field.inst_name}` | {cell(field.get_property('desc') + values)} |")
    return "\n".join(lines) + "\n"


def main():
    source, rust_file, markdown_file = sys.argv[1:]
    compiler = RDLCompiler()
    try:
        compiler.compile_file(source)
        top = compiler.elaborate().top
    except RDLCompileError:
        return 1
    description = Description(compiler, top)
    if description.failed:
        return 1
    with open(rust_file, "w", encoding="utf-8") as file:
        file.write(rust(description))
    with open(markdown_file, "w", encoding="utf-8") as file:
        file.write(markdown(description))
    return 0


if __name__ == "__main__":
    sys.exit(main())
