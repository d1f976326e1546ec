// A user of pion/sctp over UDP (RFC 6951) that does what lines of its input say. It returns every message on its stream, and writes a
// line for what happens: "= ..." if it went well and "! ..." if not.
//
// Arguments: own UDP port, 0 for any, and "interleaving" to offer I-DATA (RFC 8260).
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const maxMessage = 1 << 20

// A UDP socket without a connection: reports that the other end has no socket yet are no errors.
type conn struct {
	*net.UDPConn
	remote *net.UDPAddr // set by "remote"
}

func (c conn) Read(data []byte) (int, error) {
	n, _, err := c.ReadFromUDP(data)
	return n, err
}

func (c conn) Write(data []byte) (int, error) { return c.WriteToUDP(data, c.remote) }

func (c conn) RemoteAddr() net.Addr { return c.remote }

var output sync.Mutex

func say(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}

type peer struct {
	socket      conn
	options     []sctp.AssociationOption
	association *sctp.Association
	echoes      bool
	streams     sync.Map // of the streams in use, by number
}

// The content of message `number`, of this length; the other end has the same rule.
func content(number, length int) []byte {
	data := make([]byte, length)
	for at := range data {
		data[at] = byte(at*7 + number)
	}
	return data
}

// Returns what comes on a stream, or counts it.
func (p *peer) read(stream *sctp.Stream) {
	buffer := make([]byte, maxMessage)
	for {
		length, ppid, err := stream.ReadSCTP(buffer)
		if err != nil {
			say("= stream %d ended", stream.StreamIdentifier())
			return
		}
		if !p.echoes {
			say("= got %d %d", stream.StreamIdentifier(), length)
		} else if _, err := stream.WriteSCTP(buffer[:length], ppid); err != nil {
			say("! echo: %v", err)
		}
	}
}

func (p *peer) use(association *sctp.Association, err error) {
	if err != nil {
		say("! no association: %v", err)
		return
	}
	p.association = association
	say("= connected")
	for {
		stream, err := association.AcceptStream()
		if err != nil {
			say("= ended")
			return
		}
		p.streams.Store(int(stream.StreamIdentifier()), stream)
		go p.read(stream)
	}
}

// send STREAM LENGTH NUMBER UNORDERED RETRANSMISSIONS, the last -1 for a message that is not given up.
func (p *peer) send(words []string) error {
	var number [5]int
	for i := range number {
		number[i], _ = strconv.Atoi(words[i+1])
	}
	stream, err := p.association.OpenStream(uint16(number[0]), sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return err
	}
	kind, value := sctp.ReliabilityTypeReliable, uint32(0)
	if number[4] >= 0 {
		kind, value = sctp.ReliabilityTypeRexmit, uint32(number[4])
	}
	stream.SetReliabilityParams(number[3] != 0, kind, value)
	_, err = stream.WriteSCTP(content(number[2], number[1]), sctp.PayloadTypeWebRTCBinary)
	return err
}

// The stream that is in use at both ends, even if the other end has reset it already.
func (p *peer) reset(stream string) error {
	number, _ := strconv.Atoi(stream)
	if open, ok := p.streams.Load(number); ok {
		return open.(*sctp.Stream).Close()
	}
	return fmt.Errorf("no stream %d", number)
}

func (p *peer) obey(words []string) error {
	switch words[0] {
	case "remote":
		p.socket.remote.Port, _ = strconv.Atoi(words[1])
		return nil
	case "accept":
		options := make([]sctp.ServerOption, len(p.options))
		for i, option := range p.options {
			options[i] = option
		}
		go func() { p.use(sctp.ServerWithOptions(options...)) }()
		return nil
	case "connect":
		options := make([]sctp.ClientOption, len(p.options))
		for i, option := range p.options {
			options[i] = option
		}
		go func() { p.use(sctp.ClientWithOptions(options...)) }()
		return nil
	case "quiet":
		p.echoes = false
		return nil
	case "send":
		return p.send(words)
	case "reset":
		return p.reset(words[1])
	case "shutdown":
		limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return p.association.Shutdown(limit)
	case "abort":
		p.association.Abort(strings.Join(words[1:], " "))
		return nil
	}
	return fmt.Errorf("unknown")
}

func main() {
	port, _ := strconv.Atoi(os.Args[1])
	loopback := net.IPv4(127, 0, 0, 1)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback, Port: port})
	if err != nil {
		say("! %v", err)
		os.Exit(1)
	}
	p := peer{echoes: true, socket: conn{socket, &net.UDPAddr{IP: loopback}}}
	p.options = []sctp.AssociationOption{
		sctp.WithLoggerFactory(logging.NewDefaultLoggerFactory()),
		sctp.WithNetConn(p.socket),
		sctp.WithMaxReceiveBufferSize(4 << 20),
		sctp.WithMaxMessageSize(maxMessage),
		sctp.WithEnableInterleaving(len(os.Args) > 2),
	}
	say("= port %d", socket.LocalAddr().(*net.UDPAddr).Port)
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		words := strings.Fields(input.Text())
		if err := p.obey(words); err != nil {
			say("! %s: %v", words[0], err)
		} else {
			say("= %s", words[0])
		}
	}
}
