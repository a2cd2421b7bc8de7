/** The wire of Erlang's distribution: how nodes find each other, greet, and send signals. */
package magnetar.erlang.wire;
