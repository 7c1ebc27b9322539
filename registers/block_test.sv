// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Simulates the register block beside the tables of VELO, as software sees them on the bus: version, counters,
// interrupt with mask and clear, enable bits, a RAM array. Prints "passed", or the failed check.

module block_test #(
    parameter longint unsigned Version = 0
);
    logic clk = 0;
    logic rst = 1;
    always #1 clk = ~clk;

    // The bus of the central block.
    logic req = 0, is_wr = 0;
    logic [22:0] addr = 0;
    logic [63:0] wr_data = 0;
    logic stall_wr, stall_rd, rd_ack, rd_err, wr_ack, wr_err;
    logic [63:0] rd_data;

    selvedge_nic_pkg::selvedge_nic__in_t nic_in;
    selvedge_nic_pkg::selvedge_nic__out_t nic_out;
    selvedge_nic nic (
        .clk, .rst,
        .s_cpuif_req(req), .s_cpuif_req_is_wr(is_wr), .s_cpuif_addr(addr),
        .s_cpuif_wr_data(wr_data), .s_cpuif_wr_biten('1),
        .s_cpuif_req_stall_wr(stall_wr), .s_cpuif_req_stall_rd(stall_rd),
        .s_cpuif_rd_ack(rd_ack), .s_cpuif_rd_err(rd_err), .s_cpuif_rd_data(rd_data),
        .s_cpuif_wr_ack(wr_ack), .s_cpuif_wr_err(wr_err),
        .hwif_in(nic_in), .hwif_out(nic_out)
    );

    // The tables of VELO. The central block forwards accesses to them.
    logic velo_rd_ack, velo_rd_err, velo_wr_ack, velo_wr_err, velo_stall_wr, velo_stall_rd;
    logic [63:0] velo_rd_data;
    selvedge_velo_tables_pkg::selvedge_velo_tables__in_t velo_in;
    selvedge_velo_tables_pkg::selvedge_velo_tables__out_t velo_out;
    selvedge_velo_tables velo (
        .clk, .rst,
        .s_cpuif_req(nic_out.velo_tables.req), .s_cpuif_req_is_wr(nic_out.velo_tables.req_is_wr),
        .s_cpuif_addr(nic_out.velo_tables.addr),
        .s_cpuif_wr_data(nic_out.velo_tables.wr_data), .s_cpuif_wr_biten(nic_out.velo_tables.wr_biten),
        .s_cpuif_req_stall_wr(velo_stall_wr), .s_cpuif_req_stall_rd(velo_stall_rd),
        .s_cpuif_rd_ack(velo_rd_ack), .s_cpuif_rd_err(velo_rd_err), .s_cpuif_rd_data(velo_rd_data),
        .s_cpuif_wr_ack(velo_wr_ack), .s_cpuif_wr_err(velo_wr_err),
        .hwif_in(velo_in), .hwif_out(velo_out)
    );

    // Signals from the units: a request, bytes of a put, a message for a VPID.
    logic request = 0;
    logic [31:0] bytes = 0;
    logic [31:0] message = 0;

    // The RAM of the mailbox sizes. The other RAMs are missing and do not answer.
    logic [63:0] sizes[32];
    logic ram_rd_ack = 0, ram_wr_ack = 0;
    logic [63:0] ram_data = 0;
    always_ff @(posedge clk) begin
        ram_rd_ack <= velo_out.mailbox_sizes.req && !velo_out.mailbox_sizes.req_is_wr;
        ram_wr_ack <= velo_out.mailbox_sizes.req && velo_out.mailbox_sizes.req_is_wr;
        ram_data <= sizes[velo_out.mailbox_sizes.addr[7:3]];
        if (velo_out.mailbox_sizes.req && velo_out.mailbox_sizes.req_is_wr)
            sizes[velo_out.mailbox_sizes.addr[7:3]] <= velo_out.mailbox_sizes.wr_data;
    end

    always_comb begin
        nic_in = '{default: '0};
        nic_in.portals.requests.count.incr = request;
        nic_in.portals.bytes_in.count.incr = bytes != 0;
        nic_in.portals.bytes_in.count.incrvalue = bytes;
        nic_in.velo_tables.rd_ack = velo_rd_ack;
        nic_in.velo_tables.rd_data = velo_rd_data;
        nic_in.velo_tables.wr_ack = velo_wr_ack;
        velo_in = '{default: '0};
        velo_in.mailbox_sizes.rd_ack = ram_rd_ack;
        velo_in.mailbox_sizes.rd_data = ram_data;
        velo_in.mailbox_sizes.wr_ack = ram_wr_ack;
        for (int vpid = 0; vpid < 32; vpid++) velo_in.mailbox_interrupts[vpid].interrupt.message.next = message[vpid];
    end

    int errors = 0;

    task automatic check(input string what, input logic [63:0] found, input logic [63:0] wanted);
        if (found !== wanted) begin
            $display("%s: %0h, wanted %0h", what, found, wanted);
            errors++;
        end
    endtask

    // Inputs change at the falling edge, so that the rising edge sees them.
    task automatic access(input logic write, input logic [22:0] at, input logic [63:0] value, output logic [63:0] found);
        int cycles = 0;
        @(negedge clk);
        {req, is_wr, addr, wr_data} = {1'b1, write, at, value};
        #0.5;
        while (!(write ? wr_ack : rd_ack)) begin
            @(negedge clk);
            req = 0;
            #0.5;
            cycles++;
            if (cycles > 20) begin
                $display("no answer at %0h", at);
                errors++;
                $finish;
            end
        end
        found = rd_data;
        @(negedge clk);
        req = 0;
    endtask

    task automatic expect_at(input string what, input logic [22:0] at, input logic [63:0] wanted);
        logic [63:0] found;
        access(0, at, 0, found);
        check(what, found, wanted);
    endtask

    task automatic store(input logic [22:0] at, input logic [63:0] value);
        logic [63:0] unused;
        access(1, at, value, unused);
    endtask

    localparam logic [22:0] Triple = 23'h202000 + 23'd5 * 23'h20;

    initial begin
        repeat (4) @(negedge clk);
        rst = 0;
        expect_at("version", 23'h0, Version);

        @(negedge clk) request = 1;
        repeat (3) @(negedge clk);
        request = 0;
        bytes = 100;
        repeat (2) @(negedge clk);
        bytes = 0;
        expect_at("requests", 23'h8, 3);
        expect_at("bytes_in", 23'h20, 200);
        store(23'h8, 77);
        expect_at("requests are not written", 23'h8, 3);

        @(negedge clk) message[5] = 1;
        @(negedge clk) message[5] = 0;
        expect_at("interrupt", Triple, 1);
        expect_at("interrupt of another VPID", Triple + 23'h20, 0);
        check("masked", 64'(velo_out.mailbox_interrupts[5].interrupt.intr), 0);
        store(Triple + 8, 1);
        check("not masked", 64'(velo_out.mailbox_interrupts[5].interrupt.intr), 1);
        store(Triple + 16, 1);
        expect_at("cleared", Triple, 0);
        expect_at("the mask stays", Triple + 8, 1);
        check("cleared", 64'(velo_out.mailbox_interrupts[5].interrupt.intr), 0);

        store(23'h200000, 64'h11);
        expect_at("enable bits", 23'h200000, 64'h11);
        check("enable bits", velo_out.mailbox_enables[0].vpids.value, 64'h11);

        store(23'h201018, 64'd256);
        check("the RAM of sizes", sizes[3], 256);
        expect_at("a size", 23'h201018, 256);

        if (errors == 0) $display("passed");
        $finish;
    end
endmodule
