// Echoes with the JDK's asynchronous sockets, whose callbacks resume coroutines: a coroutine for each connection.
import java.io.IOException
import java.net.InetAddress
import java.net.InetSocketAddress
import java.net.StandardSocketOptions
import java.nio.ByteBuffer
import java.nio.channels.AsynchronousServerSocketChannel
import java.nio.channels.AsynchronousSocketChannel
import java.nio.channels.CompletionHandler
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlinx.coroutines.launch
import kotlinx.coroutines.suspendCancellableCoroutine

suspend fun <T> completed(start: (CompletionHandler<T, Unit>) -> Unit): T = suspendCancellableCoroutine { continuation ->
    start(object : CompletionHandler<T, Unit> {
        override fun completed(result: T, attachment: Unit) = continuation.resume(result)

        override fun failed(failure: Throwable, attachment: Unit) = continuation.resumeWithException(failure)
    })
}

suspend fun echo(socket: AsynchronousSocketChannel) = socket.use {
    val buffer = ByteBuffer.allocate(1024)
    try {
        while (completed<Int> { socket.read(buffer, Unit, it) } > 0) {
            buffer.flip()
            while (buffer.hasRemaining()) completed<Int> { socket.write(buffer, Unit, it) }
            buffer.clear()
        }
    } catch (gone: IOException) {
    }
}

fun echoServer(): Double {
    val server = AsynchronousServerSocketChannel.open().bind(InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 1024)
    parking.launch {
        while (true) {
            val socket = completed<AsynchronousSocketChannel> { server.accept(Unit, it) }
            socket.setOption(StandardSocketOptions.TCP_NODELAY, true)
            launch { echo(socket) }
        }
    }
    return (server.localAddress as InetSocketAddress).port.toDouble()
}
