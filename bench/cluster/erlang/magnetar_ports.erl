%% In place of epmd, a daemon that would outlive the benchmark: the port of a node is in its name, as in b40123@localhost.
-module(magnetar_ports).
-export([start_link/0, register_node/2, register_node/3, port_please/2, port_please/3, listen_port_please/2, address_please/3, names/1]).

start_link() -> ignore.

register_node(_, _) -> {ok, 1}.
register_node(_, _, _) -> {ok, 1}.

port_please(Name, _) -> {port, port_of(Name), 6}.
port_please(Name, _, _) -> {port, port_of(Name), 6}.

listen_port_please(Name, _) -> {ok, port_of(Name)}.

address_please(_, _, _) -> {ok, {127, 0, 0, 1}}.

names(_) -> {error, address}.

port_of(Name) when is_atom(Name) -> port_of(atom_to_list(Name));
port_of([_ | Port]) -> list_to_integer(Port).
