// The workloads of bench/README.md with Kotlin's coroutines and channels, on their default dispatcher.
import java.net.http.HttpClient
import java.net.http.HttpResponse
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.future.await
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.selects.select
import magnetar.peer.Peer

fun measured(prepare: suspend CoroutineScope.() -> (suspend () -> Unit)): Double = runBlocking(Dispatchers.Default) {
    val work = prepare()
    val start = System.nanoTime()
    work()
    (System.nanoTime() - start).toDouble()
}

fun ring(n: Int, rounds: Int) = measured {
    val channels = Array(n) { Channel<Int>() }
    val done = CompletableDeferred<Unit>()
    for (i in 0 until n) {
        launch {
            val out = channels[(i + 1) % n]
            for (r in 0 until rounds) {
                val token = channels[i].receive()
                if (i == n - 1 && r == rounds - 1) done.complete(Unit) else out.send(token + 1)
            }
        }
    }
    delay(3L * n / 1000) // all get to where they wait
    suspend {
        channels[0].send(0)
        done.await()
    }
}

fun pingPong(n: Int) = measured {
    val to = Channel<Int>()
    val fro = Channel<Int>()
    launch { repeat(n) { fro.send(to.receive()) } }
    suspend {
        for (i in 0 until n) {
            to.send(i)
            fro.receive()
        }
    }
}

fun fanIn(producers: Int, buffer: Int, n: Int) = measured {
    val channel = Channel<Int>(if (buffer < 0) Channel.UNLIMITED else buffer)
    val share = n / producers
    suspend {
        repeat(producers) { launch { for (i in 0 until share) channel.send(i) } }
        repeat(share * producers) { channel.receive() }
    }
}

class Request(val number: Int, val reply: CompletableDeferred<Int>)

fun call(callers: Int, n: Int) = measured {
    val requests = Channel<Request>(128)
    launch {
        var sum = 0
        for (request in requests) {
            sum += request.number
            request.reply.complete(sum)
        }
    }
    suspend {
        coroutineScope {
            repeat(callers) {
                launch {
                    repeat(n / callers) {
                        val request = Request(1, CompletableDeferred())
                        requests.send(request)
                        request.reply.await()
                    }
                }
            }
        }
        requests.close()
    }
}

fun selects(width: Int, buffer: Int, n: Int) = measured {
    val channels = Array(width) { Channel<Int>(buffer) }
    val share = n / width
    for (channel in channels) launch { for (i in 0 until share) channel.send(i) }
    suspend {
        repeat(share * width) { select<Int> { for (channel in channels) channel.onReceive { it } } }
    }
}

fun spawn(n: Int) = measured {
    suspend { coroutineScope { repeat(n) { launch { } } } }
}

fun spawnJoin(n: Int) = measured {
    suspend { coroutineScope { repeat(n) { launch { }.join() } } }
}

fun pmap(n: Int): Double {
    val input = List(n) { 1 }
    var output = emptyList<Int>()
    val took = measured {
        suspend { output = coroutineScope { input.map { async { it + 1 } }.awaitAll() } }
    }
    Peer.check(output.sum() == 2 * n, "pmap lost a value")
    return took
}

fun timers(n: Int) = measured {
    suspend {
        coroutineScope {
            val all = List(n) { launch { delay(10000L + it % 1000) } }
            all.forEach { it.cancel() }
        }
    }
}

fun crawl(port: Int, pages: Int) = HttpClient.newHttpClient().use { client ->
    measured {
        suspend {
            coroutineScope {
                repeat(pages) {
                    launch { Peer.checked(client.sendAsync(Peer.page(port, it), HttpResponse.BodyHandlers.ofString()).await(), it) }
                }
            }
        }
    }
}

val parking = CoroutineScope(Dispatchers.Default)

fun parked(): Any {
    val channel = Channel<Int>()
    parking.launch { channel.receive() }
    return channel
}

fun mixed(sleepers: Int, workers: Int) = measured {
    suspend {
        coroutineScope {
            repeat(sleepers) { launch { delay(250) } }
            repeat(workers) { launch { Peer.factors(1548587L * 982451653L) } }
        }
    }
}

fun main() = Peer.serve(
    mapOf(
        "ring" to Peer.Workload { ring(it[0], it[1]) },
        "ping-pong" to Peer.Workload { pingPong(it[0]) },
        "fan-in" to Peer.Workload { fanIn(it[0], it[1], it[2]) },
        "mailbox" to Peer.Workload { fanIn(it[0], -1, it[1]) },
        "call" to Peer.Workload { call(it[0], it[1]) },
        "select" to Peer.Workload { selects(it[0], it[1], it[2]) },
        "spawn" to Peer.Workload { spawn(it[0]) },
        "spawn-join" to Peer.Workload { spawnJoin(it[0]) },
        "pmap" to Peer.Workload { pmap(it[0]) },
        "timers" to Peer.Workload { timers(it[0]) },
        "crawl" to Peer.Workload { crawl(it[0], it[1]) },
        "echo" to Peer.Workload { echoServer() },
        "memory" to Peer.Workload { n -> Peer.memory(n[0]) { parked() } },
        "mixed" to Peer.Workload { mixed(it[0], it[1]) },
    ),
)
